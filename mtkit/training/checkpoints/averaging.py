"""Averages of weights: a moving one while training runs, and one of several checkpoints at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from mtkit.errors import DataError, MissingInputError
from mtkit.training.checkpoints.checkpoint import verify_checkpoint
from mtkit.training.checkpoints.tensor_file import read_tensors


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
