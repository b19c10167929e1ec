"""Adam, AdamW, Adadelta and SGD, torch's implementations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import nn

from mtkit.training.optimisers.base import (
    Beta,
    NonNegative,
    OptimiserConfigBase,
    PositiveFloat,
    trainable,
    weight_decay_groups,
    with_peak_lr,
)


@dataclass(frozen=True, kw_only=True)
class AdamConfig(OptimiserConfigBase):
    """Adam (Kingma & Ba 2015, algorithm 1). https://arxiv.org/abs/1412.6980."""

    bytes_per_weight: ClassVar[int] = 8

    kind: Literal["adam"] = "adam"
    learning_rate: PositiveFloat = 2e-3  # at the schedule's peak; best for model widths of 256 on Multi30k
    beta1: Beta = 0.9  # Vaswani et al. 2017, sec. 5.3
    beta2: Beta = 0.98  # Vaswani et al. 2017, sec. 5.3: a shorter horizon than that of 0.999 follows the warm-up
    eps: PositiveFloat = 1e-9  # Vaswani et al. 2017, sec. 5.3

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`."""
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

    kind: Literal["adamw"] = "adamw"
    learning_rate: PositiveFloat = 2e-3  # at the schedule's peak
    beta1: Beta = 0.9  # as Adam
    beta2: Beta = 0.98  # as Adam
    eps: PositiveFloat = 1e-9  # as Adam
    weight_decay: NonNegative = 0.01  # times the learning rate, per update

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`, in two groups."""
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
        return torch.optim.SGD(
            with_peak_lr([{"params": trainable(model)}], self.learning_rate),
            lr=self.learning_rate,
            momentum=self.momentum,
        )
