"""TODO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.training.distributed.fsdp import fill, own_part


class AfterUpdate(Protocol):
    """A function that training calls after every update; `name` is that of its file in a checkpoint."""

    name: str

    def __call__(self, model: nn.Module, update: int) -> None:
        """Do it; `update` (1 is the first) has just been applied to the model."""
        ...

    def tensors(self) -> Mapping[str, Tensor]:
        """What a checkpoint must hold."""
        ...

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        ...


@dataclass(frozen=True, kw_only=True)
class MovingAverageConfig:
    """Exponential moving average of the weights (see MovingAverage); validation and the final model use it."""

    decay: Annotated[float, Field(gt=0, lt=1)] = 0.998  # a memory of 500 updates: the last eighth of 4,000
    every: Annotated[int, Field(gt=0)] = 4  # updates between two looks; one at each update costs 3% of the time

    def build(self, model: nn.Module) -> MovingAverage:
        """The average, beginning at the model's present weights."""
        return MovingAverage(model, decay=self.decay, every=self.every)


class MovingAverage:
    """average <- d^n·average + (1 - d^n)·weights, at every n-th update: a memory of 1/(1 - d) updates.

    d is min(decay, (1 + u) / (10 + u)) at update u, so that the random beginning is soon forgotten.
    """

    name = "average"

    def __init__(self, model: nn.Module, *, decay: float, every: int = 1) -> None:
        self.decay = decay
        self.every = every
        self._weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def __call__(self, model: nn.Module, update: int) -> None:
        """Take the weights of this update in, if it is one of those looked at."""
        if update % self.every:
            return
        share = 1.0 - min(self.decay, (1 + update) / (10 + update)) ** self.every
        weights = [own_part(p.detach()) for _, p in model.named_parameters()]
        torch._foreach_lerp_([own_part(weight) for weight in self._weights.values()], weights, share)

    def tensors(self) -> Mapping[str, Tensor]:
        """The averages by parameter name."""
        return self._weights

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        for name, weight in self._weights.items():
            fill(weight, tensors[name])

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """Within the block the model has the averaged weights."""
        self._swap(model)
        try:
            yield
        finally:
            self._swap(model)

    @torch.no_grad()
    def _swap(self, model: nn.Module) -> None:
        """By value: a sharded weight, and one that others remember, must stay where it is."""
        for name, parameter in model.named_parameters():
            weight, average = own_part(parameter.detach()), own_part(self._weights[name])
            before = weight.clone()
            weight.copy_(average)
            average.copy_(before)
