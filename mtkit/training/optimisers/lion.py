"""Lion: every weight moves by the same amount, in the direction of a momentum's sign."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from mtkit.training.distributed.fsdp import own_part
from mtkit.training.optimisers.torch_optimisers import Beta, NonNegative, Rate, decayed_groups


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2. https://arxiv.org/abs/2302.06675.

    c = beta1 m + (1 - beta1) g;  w <- w - rate (sign(c) + decay w);  m <- beta2 m + (1 - beta2) g. One number is
    remembered for each weight, where Adam has two.

    Args:
        params: groups with `lr` and `weight_decay` of their own, or not.
        lr, beta1, beta2, weight_decay: for those that have none.
    """

    def __init__(
        self, params: Iterable[dict[str, Any]], *, lr: float, beta1: float, beta2: float, weight_decay: float
    ) -> None:
        super().__init__(params, {"lr": lr, "beta1": beta1, "beta2": beta2, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of all weights that have a gradient; there is no closure."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            weights, gradients = [own_part(p) for p in params], [own_part(p.grad) for p in params]
            momenta = [own_part(self.state[p].setdefault("momentum", torch.zeros_like(p))) for p in params]
            directions = torch._foreach_lerp(gradients, momenta, group["beta1"])
            torch._foreach_sign_(directions)
            torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(weights, directions, alpha=-group["lr"])
            torch._foreach_lerp_(momenta, gradients, 1 - group["beta2"])


@dataclass(frozen=True, kw_only=True)
class LionConfig:
    """Sign momentum (see Lion); half the memory of Adam."""

    kind: Literal["lion"] = "lion"
    learning_rate: Rate = 3e-4  # at the schedule's peak; sec. 5: 3 to 10 times below Adam's
    beta1: Beta = 0.9
    beta2: Beta = 0.99
    weight_decay: NonNegative = 0.1  # times the rate, per update, of matrices; 3 to 10 times above AdamW's

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimiser over all trainable parameters of `model`, in two groups."""
        groups = decayed_groups(model, self.weight_decay, self.learning_rate)
        return Lion(groups, lr=self.learning_rate, beta1=self.beta1, beta2=self.beta2, weight_decay=self.weight_decay)
