"""Configurations of optimisers, and the union of kinds that a recipe can name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from mtkit.training.key_types import Beta, NonNegative, PositiveFloat
from mtkit.training.optimisers.capabilities import OptimiserConfigBase

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class AdamConfig(OptimiserConfigBase):
    """Adam (Kingma & Ba 2015, algorithm 1). https://arxiv.org/abs/1412.6980."""

    bytes_per_weight: ClassVar[int] = 8
    has_chosen_rate: ClassVar[bool] = True

    kind: Literal["adam"] = "adam"
    learning_rate: PositiveFloat = 2e-3  # at the schedule's peak; best for model widths of 256 on Multi30k
    beta1: Beta = 0.9  # Vaswani et al. 2017, sec. 5.3
    beta2: Beta = 0.98  # Vaswani et al. 2017, sec. 5.3: a shorter horizon than that of 0.999 follows the warm-up
    eps: PositiveFloat = 1e-9  # Vaswani et al. 2017, sec. 5.3

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`."""
        import torch

        from mtkit.training.optimisers.base import trainable, with_peak_lr

        return torch.optim.Adam(
            with_peak_lr([{"params": trainable(model)}], self.learning_rate),
            lr=self.learning_rate,
            betas=(self.beta1, self.beta2),
            eps=self.eps,
            fused=True,  # measured: see tests/benchmarks/NOTES.md
        )


@dataclass(frozen=True, kw_only=True)
class AdamWConfig(OptimiserConfigBase):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2). https://arxiv.org/abs/1711.05101.

    Only matrices decay: the scale of a norm's gain or of a bias cannot grow without limit.
    """

    bytes_per_weight: ClassVar[int] = 8
    has_chosen_rate: ClassVar[bool] = True

    kind: Literal["adamw"] = "adamw"
    learning_rate: PositiveFloat = 2e-3  # at the schedule's peak
    beta1: Beta = 0.9  # as Adam
    beta2: Beta = 0.98  # as Adam
    eps: PositiveFloat = 1e-9  # as Adam
    weight_decay: NonNegative = 0.01  # times the learning rate, per update

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`, in two groups."""
        import torch

        from mtkit.training.optimisers.base import weight_decay_groups

        return torch.optim.AdamW(
            weight_decay_groups(model, self.weight_decay, self.learning_rate),
            lr=self.learning_rate,
            betas=(self.beta1, self.beta2),
            eps=self.eps,
            fused=True,
        )


@dataclass(frozen=True, kw_only=True)
class AdadeltaConfig(OptimiserConfigBase):
    """Adadelta (Zeiler 2012, algorithm 1), with which Bahdanau et al. 2015 trained. https://arxiv.org/abs/1212.5701.

    The paper has no learning rate, which is a rate of 1. A loss that is divided by n has the same updates with a rate
    of n and an eps divided by n squared.
    """

    bytes_per_weight: ClassVar[int] = 8

    kind: Literal["adadelta"] = "adadelta"
    learning_rate: PositiveFloat = 1.0  # at the schedule's peak; Zeiler's algorithm has none
    rho: Beta = 0.95  # decay of the means of squares; Bahdanau et al. 2015, appendix B.2
    eps: PositiveFloat = 1e-6  # added to both means; Bahdanau et al. 2015, appendix B.2

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`."""
        import torch

        from mtkit.training.optimisers.base import trainable, with_peak_lr

        return torch.optim.Adadelta(
            with_peak_lr([{"params": trainable(model)}], self.learning_rate),
            lr=self.learning_rate,
            rho=self.rho,
            eps=self.eps,
        )


@dataclass(frozen=True, kw_only=True)
class SGDConfig(OptimiserConfigBase):
    """Stochastic gradient descent with momentum; Sutskever et al. 2014 trained without momentum."""

    kind: Literal["sgd"] = "sgd"
    learning_rate: PositiveFloat = 0.7  # Sutskever et al. 2014, sec. 3.4
    momentum: Beta = 0.0  # Sutskever et al. 2014, sec. 3.4

    @property
    def bytes_per_weight(self) -> int:  # type: ignore[override]
        """Bytes of optimiser state per weight."""
        return 4 if self.momentum else 0

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`."""
        import torch

        from mtkit.training.optimisers.base import trainable, with_peak_lr

        return torch.optim.SGD(
            with_peak_lr([{"params": trainable(model)}], self.learning_rate),
            lr=self.learning_rate,
            momentum=self.momentum,
        )


@dataclass(frozen=True, kw_only=True)
class AdafactorConfig(OptimiserConfigBase):
    """Adafactor (Shazeer & Stern 2018, algorithms 4 and 5), torch's implementation. https://arxiv.org/abs/1804.04235.

    Its state is a vector per row and per column of a matrix. The learning rate is relative: an update moves a matrix by
    that fraction of the matrix's root mean square. The schedule's rate is also bounded by 1/sqrt(update).
    """

    bytes_per_weight: ClassVar[int] = 0
    needs_whole_matrices: ClassVar[bool] = True

    kind: Literal["adafactor"] = "adafactor"
    learning_rate: PositiveFloat = 1e-2  # at the schedule's peak, relative to a matrix's root mean square; sec. 9
    decay_rate: PositiveFloat = 0.8  # second moments at update t decay by 1 - t^-decay_rate; sec. 7.2
    clip_threshold: Annotated[float, Field(ge=1)] = 1.0  # upper limit of the root mean square of an update; sec. 6
    min_scale: PositiveFloat = 1e-3  # lower limit of a matrix's root mean square, so that zeros can move; eps2
    weight_decay: NonNegative = 0.0  # of matrices, times the learning rate, per update

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`, in two groups."""
        import torch

        from mtkit.training.optimisers.base import weight_decay_groups

        return torch.optim.Adafactor(
            weight_decay_groups(model, self.weight_decay, self.learning_rate),
            lr=self.learning_rate,
            beta2_decay=-self.decay_rate,
            eps=(None, self.min_scale),
            d=self.clip_threshold,
        )


@dataclass(frozen=True, kw_only=True)
class LionConfig(OptimiserConfigBase):
    """Sign momentum (see Lion); half the state of Adam."""

    bytes_per_weight: ClassVar[int] = 4

    kind: Literal["lion"] = "lion"
    learning_rate: PositiveFloat = 3e-4  # at the schedule's peak; sec. 5: 3 to 10 times below Adam's
    beta1: Beta = 0.9  # weight of the momentum in an update's direction; sec. 4.1
    beta2: Beta = 0.99  # decay of the momentum; sec. 4.1
    weight_decay: NonNegative = 0.1  # of matrices, times the learning rate, per update; 3 to 10 times above AdamW's

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`, in two groups."""
        from mtkit.training.optimisers.base import weight_decay_groups
        from mtkit.training.optimisers.lion import Lion

        groups = weight_decay_groups(model, self.weight_decay, self.learning_rate)
        return Lion(groups, lr=self.learning_rate, beta1=self.beta1, beta2=self.beta2, weight_decay=self.weight_decay)


@dataclass(frozen=True, kw_only=True)
class MuonConfig(OptimiserConfigBase):
    """Orthogonalised momentum (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon), torch's implementation.

    It trains hidden matrices. Embeddings, output projection, gains and biases are trained by AdamW at the same learning
    rate: updates of matrices are scaled by 0.2 sqrt(longer side), which gives them AdamW's usual root mean square (Liu
    et al. 2025, eq. 4, https://arxiv.org/abs/2502.16982).
    """

    bytes_per_weight: ClassVar[int] = 8  # AdamW's; 4 of hidden matrices
    needs_whole_matrices: ClassVar[bool] = True

    kind: Literal["muon"] = "muon"
    learning_rate: PositiveFloat = 2e-3  # at the schedule's peak; AdamW's default
    momentum: Beta = 0.95  # the authors' choice
    ns_steps: int = 5  # Newton-Schulz iterations; the authors' choice
    beta1: Beta = 0.9  # of AdamW
    beta2: Beta = 0.98  # of AdamW
    eps: PositiveFloat = 1e-9  # of AdamW
    weight_decay: NonNegative = 0.01  # of all matrices, times the learning rate, per update

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`."""
        import torch

        from mtkit.training.optimisers.base import trainable, with_peak_lr
        from mtkit.training.optimisers.muon import CombinedOptimizer, hidden_matrices

        hidden = {id(p) for p in hidden_matrices(model)}
        matrices = [p for p in trainable(model) if id(p) in hidden]
        rest = [p for p in trainable(model) if id(p) not in hidden]
        decayed = [p for p in rest if p.dim() >= 2]
        groups = [
            {"params": decayed, "weight_decay": self.weight_decay},
            {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
        ]
        adamw = torch.optim.AdamW(
            with_peak_lr(groups, self.learning_rate),
            lr=self.learning_rate,
            betas=(self.beta1, self.beta2),
            eps=self.eps,
            fused=True,
        )
        if not matrices:
            return adamw
        muon = torch.optim.Muon(
            with_peak_lr([{"params": matrices}], self.learning_rate),
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            ns_steps=self.ns_steps,
            adjust_lr_fn="match_rms_adamw",
        )
        return CombinedOptimizer([muon, adamw])


OptimiserConfig = Annotated[
    AdamConfig | AdamWConfig | AdafactorConfig | AdadeltaConfig | LionConfig | MuonConfig | SGDConfig,
    Field(discriminator="kind"),
]
