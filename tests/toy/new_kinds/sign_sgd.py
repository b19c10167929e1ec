"""Signs of the gradient, without a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from mtkit.training.optimisers.base import OptimiserConfigBase, PositiveFloat, weight_decay_groups


class SignSGD(torch.optim.Optimizer):
    """w <- w - lr sign(g)."""

    def __init__(self, params: Any, *, lr: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update all weights that have a gradient."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.add_(weight.grad.sign(), alpha=-group["lr"])


@dataclass(frozen=True, kw_only=True)
class SignSGDConfig(OptimiserConfigBase):
    """Signs of the gradient (see SignSGD)."""

    bytes_per_weight: ClassVar[int] = 0

    kind: Literal["sign_sgd"] = "sign_sgd"
    learning_rate: PositiveFloat = 1e-3  # at the schedule's peak

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser."""
        return SignSGD(weight_decay_groups(model, 0.0, self.learning_rate), lr=self.learning_rate)
