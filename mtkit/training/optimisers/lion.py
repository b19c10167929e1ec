"""Lion: every weight moves by the same amount, in the direction of a momentum's sign."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from mtkit.training.distributed.fsdp import local_shard


class Lion(torch.optim.Optimizer):
    """Lion optimiser. Chen et al. 2023, algorithm 2. https://arxiv.org/abs/2302.06675.

    c = beta1 m + (1 - beta1) g;  w <- w - lr (sign(c) + decay w);  m <- beta2 m + (1 - beta2) g. The state is one
    number per weight, m; Adam's is two.

    Args:
        params: parameter groups, which may set `lr` and `weight_decay`.
        lr, beta1, beta2, weight_decay: of groups that do not set them.
    """

    def __init__(
        self, params: Iterable[dict[str, Any]], *, lr: float, beta1: float, beta2: float, weight_decay: float
    ) -> None:
        super().__init__(params, {"lr": lr, "beta1": beta1, "beta2": beta2, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient; `closure` is ignored."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            weights, gradients = [local_shard(p) for p in params], [local_shard(p.grad) for p in params]
            momenta = [local_shard(self.state[p].setdefault("momentum", torch.zeros_like(p))) for p in params]
            directions = torch._foreach_lerp(gradients, momenta, group["beta1"])
            torch._foreach_sign_(directions)
            torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(weights, directions, alpha=-group["lr"])
            torch._foreach_lerp_(momenta, gradients, 1 - group["beta2"])
