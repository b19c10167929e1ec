"""Exponential moving average (EMA) of the weights while a model trains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from mtkit.training.distributed.fsdp import copy_into_shard, local_shard


class ExponentialMovingAverage:
    """EMA of a model's parameters with a horizon of 1/(1 - d) updates.

    average <- d^n·average + (1 - d^n)·weights at every n-th update u, with d = min(decay, (1 + u) / (10 + u)): early
    updates have a shorter horizon, so that the random initial weights are soon forgotten.

    Args:
        model: the average starts from its weights.
        decay: d, once the warm-up is over.
        update_every: n.
    """

    def __init__(self, model: nn.Module, *, decay: float, update_every: int = 1) -> None:
        self.decay = decay
        self.update_every = update_every
        self._weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update_from(self, model: nn.Module, update: int) -> None:
        """Include the model's weights after an update (1 is the first), if it is one of every `update_every`."""
        if update % self.update_every:
            return
        share = 1.0 - min(self.decay, (1 + update) / (10 + update)) ** self.update_every
        weights = [local_shard(p.detach()) for _, p in model.named_parameters()]
        torch._foreach_lerp_([local_shard(weight) for weight in self._weights.values()], weights, share)

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the averages by parameter name."""
        return self._weights

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the averages from a checkpoint."""
        for name, weight in self._weights.items():
            copy_into_shard(weight, tensors[name])

    @contextmanager
    def swapped_in(self, model: nn.Module) -> Iterator[None]:
        """Give the model the averaged weights within the block."""
        self._swap(model)
        try:
            yield
        finally:
            self._swap(model)

    @torch.no_grad()
    def _swap(self, model: nn.Module) -> None:
        """Exchange values, not tensors: the optimiser and FSDP hold references to the parameters."""
        for name, parameter in model.named_parameters():
            weight, average = local_shard(parameter.detach()), local_shard(self._weights[name])
            before = weight.clone()
            weight.copy_(average)
            average.copy_(before)
