"""Lion: every weight moves by the same amount, in the direction of a momentum's sign."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from mtkit.training.distributed.fsdp import local_shard
from mtkit.training.optimisers.base import (
    Beta,
    NonNegative,
    OptimiserConfigBase,
    PositiveFloat,
    weight_decay_groups,
)


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
        groups = weight_decay_groups(model, self.weight_decay, self.learning_rate)
        return Lion(groups, lr=self.learning_rate, beta1=self.beta1, beta2=self.beta2, weight_decay=self.weight_decay)
