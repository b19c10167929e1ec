"""Averages of weights: a moving one while training runs, and one of several checkpoints at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.errors import DataError, MissingInputError
from mtkit.training.checkpoint import verify_checkpoint
from mtkit.training.shards import fill, own_part
from mtkit.training.tensor_file import read_tensors


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


@dataclass(frozen=True, kw_only=True)
class CheckpointAverageConfig:
    """The final model is the mean of several checkpoints (Vaswani et al. 2017, sec. 6.1: the last 5, or 20)."""

    checkpoints: Annotated[int, Field(gt=1)] = 5
    of: Literal["last", "best"] = "last"  # best by training.validation.metric


def translation_weights(path: Path) -> dict[str, Tensor]:
    """The weights to translate with: a checkpoint's moving average where it has one, else its model.

    An average is of what is learned; what a model was given, such as random features, is the model's own.
    `path` is a checkpoint, a model folder or a file of safetensors.

    Raises:
        MissingInputError: there is none of these.
        DataError: the checkpoint is damaged.
    """
    if path.is_file():
        return read_tensors(path)
    if (path / "manifest.json").is_file():
        verify_checkpoint(path)
    files = [path / name for name in ("model.safetensors", "average.safetensors") if (path / name).is_file()]
    if not files:
        raise MissingInputError(f"{path}: neither a checkpoint nor a model folder; it has no model.safetensors")
    return {name: weight for file in files for name, weight in read_tensors(file).items()}


def average_checkpoints(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights of one or more checkpoints or model folders, summed in float64.

    Raises:
        MissingInputError: a path is no checkpoint.
        DataError: one is damaged, or they are not of the same model.
        ValueError: no path.
    """
    if not paths:
        raise ValueError("no checkpoint to average")
    first = translation_weights(paths[0])
    total = {name: weight.double() for name, weight in first.items()}
    for path in paths[1:]:
        weights = translation_weights(path)
        if {n: w.shape for n, w in weights.items()} != {n: w.shape for n, w in first.items()}:
            raise DataError(f"{path}: not the same model as {paths[0]}; only checkpoints of one model can be averaged")
        for name, weight in weights.items():
            total[name] += weight
    return {name: (weight / len(paths)).to(first[name].dtype) for name, weight in total.items()}
