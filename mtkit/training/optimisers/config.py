"""Configurations of optimisers, and the union of kinds that a recipe can name."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from mtkit.config import Limits, config

PositiveFloat = Annotated[float, Limits(gt=0)]
NonNegative = Annotated[float, Limits(ge=0)]
Beta = Annotated[float, Limits(ge=0, lt=1)]


class OptimiserConfigBase:
    """Capabilities of an optimiser's configuration; a kind sets `bytes_per_weight` and overrides what differs."""

    builds: ClassVar[str]  # class or function that `construct` calls with the config and the model
    bytes_per_weight: ClassVar[int]  # bytes of optimiser state per weight, at most; vectors per matrix are not counted
    has_chosen_rate: ClassVar[bool] = False  # its learning rates are Adam's, which are chosen from the corpus
    needs_whole_matrices: ClassVar[bool] = False  # an update of a row depends on other rows, so FSDP cannot shard it


@config
class AdamKeys(OptimiserConfigBase):
    """Keys of Adam, with and without weight decay."""

    bytes_per_weight: ClassVar[int] = 8
    has_chosen_rate: ClassVar[bool] = True

    kind: str
    # Learning rate at the schedule's peak. Default: best for model widths of 256 on Multi30k.
    learning_rate: PositiveFloat = 2e-3
    # Decay of the mean of the gradients. Default: Vaswani et al. 2017, sec. 5.3.
    beta1: Beta = 0.9
    # Decay of the mean of their squares. Default: Vaswani et al. 2017, sec. 5.3: a shorter horizon than that of 0.999
    # follows the warm-up.
    beta2: Beta = 0.98
    # Number that is added to the divisor of an update. Default: Vaswani et al. 2017, sec. 5.3.
    eps: PositiveFloat = 1e-9


@config
class AdamConfig(AdamKeys):
    """Adam (Kingma & Ba 2015, algorithm 1). https://arxiv.org/abs/1412.6980."""

    kind: Literal["adam"] = "adam"
    builds: ClassVar[str] = "training.optimisers.optimisers:adam"


@config
class AdamWConfig(AdamKeys):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2). https://arxiv.org/abs/1711.05101.

    Only matrices decay: the scale of a norm's gain or of a bias cannot grow without limit.
    """

    kind: Literal["adamw"] = "adamw"
    builds: ClassVar[str] = "training.optimisers.optimisers:adamw"
    # Share of a matrix that is removed per update, times the learning rate. Default: torch's.
    weight_decay: NonNegative = 0.01


@config
class AdadeltaConfig(OptimiserConfigBase):
    """Adadelta (Zeiler 2012, algorithm 1), with which Bahdanau et al. 2015 trained. https://arxiv.org/abs/1212.5701.

    The paper has no learning rate, which is a rate of 1. A loss that is divided by n has the same updates with a rate
    of n and an eps divided by n squared.
    """

    bytes_per_weight: ClassVar[int] = 8

    kind: Literal["adadelta"] = "adadelta"
    builds: ClassVar[str] = "training.optimisers.optimisers:adadelta"
    # Factor of the updates at the schedule's peak. Default: 1; Zeiler's algorithm has no such factor.
    learning_rate: PositiveFloat = 1.0
    # Decay of the means of squares. Default: Bahdanau et al. 2015, appendix B.2.
    rho: Beta = 0.95
    # Number that is added to both means. Default: Bahdanau et al. 2015, appendix B.2.
    eps: PositiveFloat = 1e-6


@config
class SGDConfig(OptimiserConfigBase):
    """Stochastic gradient descent with momentum; Sutskever et al. 2014 trained without momentum."""

    kind: Literal["sgd"] = "sgd"
    builds: ClassVar[str] = "training.optimisers.optimisers:sgd"
    # Learning rate at the schedule's peak. Default: Sutskever et al. 2014, sec. 3.4.
    learning_rate: PositiveFloat = 0.7
    # Decay of the sum of the gradients. Default: 0, as in Sutskever et al. 2014, sec. 3.4.
    momentum: Beta = 0.0

    @property
    def bytes_per_weight(self) -> int:  # type: ignore[override]
        """Bytes of optimiser state per weight."""
        return 4 if self.momentum else 0


@config
class AdafactorConfig(OptimiserConfigBase):
    """Adafactor (Shazeer & Stern 2018, algorithms 4 and 5), torch's implementation. https://arxiv.org/abs/1804.04235.

    Its state is a vector per row and per column of a matrix. The learning rate is relative: an update moves a matrix by
    that fraction of the matrix's root mean square. The schedule's rate is also bounded by 1/sqrt(update).
    """

    bytes_per_weight: ClassVar[int] = 0
    needs_whole_matrices: ClassVar[bool] = True

    kind: Literal["adafactor"] = "adafactor"
    builds: ClassVar[str] = "training.optimisers.optimisers:adafactor"
    # Learning rate at the schedule's peak, relative to a matrix's root mean square. Default: sec. 9.
    learning_rate: PositiveFloat = 1e-2
    # Exponent of the decay 1 - t^-decay_rate of the second moments at update t. Default: sec. 7.2.
    decay_rate: PositiveFloat = 0.8
    # Largest root mean square of an update. Default: sec. 6.
    clip_threshold: Annotated[float, Limits(ge=1)] = 1.0
    # Smallest root mean square that a matrix counts with (eps2), so that zeros can move. Default: sec. 9.
    min_scale: PositiveFloat = 1e-3
    # Share of a matrix that is removed per update, times the learning rate. Default: 0, as in the paper.
    weight_decay: NonNegative = 0.0


@config
class LionConfig(OptimiserConfigBase):
    """Sign momentum (see Lion); half the state of Adam."""

    bytes_per_weight: ClassVar[int] = 4

    kind: Literal["lion"] = "lion"
    builds: ClassVar[str] = "training.optimisers.optimisers:Lion"
    # Learning rate at the schedule's peak. Default: sec. 5: 3 to 10 times below Adam's.
    learning_rate: PositiveFloat = 3e-4
    # Weight of the momentum in the direction of an update. Default: sec. 4.1.
    beta1: Beta = 0.9
    # Decay of the momentum. Default: sec. 4.1.
    beta2: Beta = 0.99
    # Share of a matrix that is removed per update, times the learning rate. Default: sec. 5: 3 to 10 times above
    # AdamW's.
    weight_decay: NonNegative = 0.1


@config
class MuonConfig(OptimiserConfigBase):
    """Orthogonalised momentum (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon), torch's implementation.

    It trains hidden matrices. Embeddings, output projection, gains and biases are trained by AdamW at the same learning
    rate: updates of matrices are scaled by 0.2 sqrt(longer side), which gives them AdamW's usual root mean square (Liu
    et al. 2025, eq. 4, https://arxiv.org/abs/2502.16982).
    """

    bytes_per_weight: ClassVar[int] = 8  # AdamW's; 4 of hidden matrices
    needs_whole_matrices: ClassVar[bool] = True

    kind: Literal["muon"] = "muon"
    builds: ClassVar[str] = "training.optimisers.optimisers:muon"
    # Learning rate at the schedule's peak. Default: AdamW's, since updates are scaled to AdamW's size.
    learning_rate: PositiveFloat = 2e-3
    # Decay of the momentum of hidden matrices. Default: the authors'.
    momentum: Beta = 0.95
    # Newton-Schulz iterations that orthogonalise an update. Default: the authors'.
    ns_steps: int = 5
    # AdamW's decay of the mean of the gradients, for all but hidden matrices. Default: Adam's.
    beta1: Beta = 0.9
    # AdamW's decay of the mean of their squares. Default: Adam's.
    beta2: Beta = 0.98
    # Number that AdamW adds to the divisor of an update. Default: Adam's.
    eps: PositiveFloat = 1e-9
    # Share of a matrix that is removed per update, times the learning rate. Default: AdamW's.
    weight_decay: NonNegative = 0.01


OptimiserConfig = AdamConfig | AdamWConfig | AdafactorConfig | AdadeltaConfig | LionConfig | MuonConfig | SGDConfig
