"""Mean of the weights of several checkpoints, which becomes the final model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from mtkit.errors import DataError, MissingInputError
from mtkit.training.checkpoints.checkpoint import verify_checkpoint
from mtkit.training.checkpoints.tensor_file import check_finite, read_tensors


def translation_weights(path: Path) -> dict[str, Tensor]:
    """Read the weights for translation: a checkpoint's EMA where it has one, and otherwise its model.

    The EMA holds parameters only. Buffers, such as random features, are the model's.

    Args:
        path: a checkpoint, a model folder or a safetensors file.

    Raises:
        MissingInputError: `path` is none of these.
        DataError: the checkpoint is damaged, or a weight is NaN or infinite.
    """
    if path.is_file():
        return _finite_tensors(path)
    if (path / "manifest.json").is_file():
        verify_checkpoint(path)
    files = [path / name for name in ("model.safetensors", "ema.safetensors") if (path / name).is_file()]
    if not files:
        raise MissingInputError(f"{path}: neither a checkpoint nor a model folder; it has no model.safetensors")
    return {name: weight for file in files for name, weight in _finite_tensors(file).items()}


def _finite_tensors(path: Path) -> dict[str, Tensor]:
    tensors = read_tensors(path)
    check_finite(tensors, path)
    return tensors


def average_checkpoints(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights of one or more checkpoints or model folders, summed in float64.

    Raises:
        MissingInputError: a path is not a checkpoint.
        DataError: a checkpoint is damaged, or the checkpoints are of different models.
        ValueError: there are no paths.
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
