"""Signs of the gradient, without a state."""

from __future__ import annotations

from typing import Any

import torch


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
