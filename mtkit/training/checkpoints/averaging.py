"""Averages of weights: an exponential moving average (EMA) during training, and the mean of checkpoints after it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from mtkit.errors import DataError, MissingInputError
from mtkit.io.finite import check_finite
from mtkit.training.checkpoints.checkpoint import verify_checkpoint
from mtkit.training.checkpoints.tensor_file import read_tensors
from mtkit.training.config import EMAConfig
from mtkit.training.distributed import copy_into_shard, local_shard


class ExponentialMovingAverage:
    """EMA of a model's trained parameters with a horizon of 1/(1 - d) updates.

    average <- d^n·average + (1 - d^n)·weights at every n-th update u, with d = min(decay, (1 + u) / (10 + u)): early
    updates have a shorter horizon, so that the random initial weights are soon forgotten.

    Args:
        model: the average starts from its weights.
        config: d once the warm-up is over, and n.

    Attributes:
        weights: the averages by parameter name.
    """

    def __init__(self, model: nn.Module, config: EMAConfig) -> None:
        self.config = config
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}

    @torch.no_grad()
    def update_from(self, model: nn.Module, update: int, pace: float = 1.0) -> None:
        """Include the model's weights after an update (1 is the first), if it is one of every `update_every`.

        Args:
            pace: the horizon is 1/(1 - d) divided by it; see TimeBudget.
        """
        if update % self.config.update_every:
            return
        share = 1.0 - min(self.config.decay**pace, (1 + update) / (10 + update)) ** self.config.update_every
        weights = [local_shard(p.detach()) for name, p in model.named_parameters() if name in self.weights]
        torch._foreach_lerp_([local_shard(weight) for weight in self.weights.values()], weights, share)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the averages from a checkpoint."""
        for name, weight in self.weights.items():
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
            if name not in self.weights:
                continue
            weight, average = local_shard(parameter.detach()), local_shard(self.weights[name])
            before = weight.clone()
            weight.copy_(average)
            average.copy_(before)


def translation_weights(path: Path, *, leave_out: Collection[str] = ()) -> dict[str, Tensor]:
    """Read the weights for translation: a checkpoint's EMA where it has one, and otherwise its model.

    The EMA holds trained parameters only. Frozen ones and buffers, such as random features, are the model's.

    Args:
        path: a checkpoint, a model folder or a safetensors file.
        leave_out: names of weights that are not read.

    Raises:
        MissingInputError: `path` is none of these.
        DataError: the checkpoint is damaged, or a weight is NaN or infinite.
    """
    if (path / "manifest.json").is_file():
        verify_checkpoint(path)
    files = [file for file in (path, path / "ema.safetensors", path / "model.safetensors") if file.is_file()]
    if not files:
        raise MissingInputError(f"{path}: neither a checkpoint nor a model folder; it has no model.safetensors")
    weights: dict[str, Tensor] = {}
    for file in files:
        tensors = read_tensors(file, leave_out={*leave_out, *weights})
        for name, tensor in tensors.items():  # one by one, since NumPy has no bfloat16, and a copy takes memory
            if tensor.is_floating_point():
                check_finite({name: tensor.float().numpy()}, file)
        weights |= tensors
    return weights


def average_checkpoints(paths: Sequence[Path], known: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """Return the mean of the weights of one or more checkpoints or model folders, summed in float64.

    Args:
        known: weights that are equal in all of them; they are not read again. None: there are none.

    Raises:
        MissingInputError: a path is not a checkpoint.
        DataError: a checkpoint is damaged, or the checkpoints are of different models.
        ValueError: there are no paths.
    """
    if not paths:
        raise ValueError("no checkpoint to average")
    known = known or {}
    first = translation_weights(paths[0], leave_out=known)
    if len(paths) == 1:
        return {**first, **known}
    total = {name: weight.double() for name, weight in first.items()}
    for path in paths[1:]:
        weights = translation_weights(path, leave_out=known)
        if {n: w.shape for n, w in weights.items()} != {n: w.shape for n, w in first.items()}:
            raise DataError(f"{path}: not the same model as {paths[0]}; only checkpoints of one model can be averaged")
        for name, weight in weights.items():
            total[name] += weight
    return {**{name: (weight / len(paths)).to(first[name].dtype) for name, weight in total.items()}, **known}
