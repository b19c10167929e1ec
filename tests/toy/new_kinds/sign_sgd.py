"""Signs of the gradient, without a state."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from mtkit.training.optimisers.optimisers import weight_decay_groups


class SignSGD(torch.optim.Optimizer):
    """w <- w - lr sign(g)."""

    def __init__(self, config: Any, model: nn.Module) -> None:
        super().__init__(weight_decay_groups(model, 0.0, config.learning_rate), {"lr": config.learning_rate})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update all weights that have a gradient."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.add_(weight.grad.sign(), alpha=-group["lr"])
