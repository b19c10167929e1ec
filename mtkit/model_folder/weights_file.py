"""Weights of a model folder: compared by name, shape and type before a model is built, then memory-mapped.

Quantised weights are dequantised into new memory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from mtkit.errors import DamagedError, DataError
from mtkit.io.files import require_regular_file, translate_read_errors
from mtkit.model_folder.quantised_weights import dequantise_tensors, dequantised_header
from mtkit.models.interface import TranslationModel
from mtkit.models.skip_init import META_DEVICE, SkipInit, build_on_meta
from mtkit.training.checkpoints.tensor_file import DTYPES
from mtkit.training.weights import mismatches, weights

MAX_LISTED = 3  # mismatches in a message


def build_with_weights(build: Callable[[], TranslationModel], path: Path, *, remedy: str) -> TranslationModel:
    """Build a model whose weights are those of a file, memory-mapped instead of copied.

    The file's header is compared with a model on the meta device first, so that a configuration that does not belong to
    the file is refused before memory is allocated.

    Args:
        build: builds the model.
        path: file in the safetensors format.
        remedy: end of the message about a damaged file.

    Raises:
        MissingInputError, ReadWriteError: as `files.translate_read_errors`.
        DataError: the file is damaged, or has the weights of another model; the first mismatches are listed.
    """
    require_regular_file(path)
    try:
        header = dequantised_header(_read_header(path))
        if errors := _mismatches(build_on_meta(build), header):
            listed = "; ".join(errors[:MAX_LISTED])
            more = f"; and {len(errors) - MAX_LISTED} more" if len(errors) > MAX_LISTED else ""
            raise DataError(f"{path}: the weights do not match the model: {listed}{more}; {remedy}")
        with translate_read_errors(path):
            tensors = dequantise_tensors(load_file(path))
    except SafetensorError as error:
        raise DamagedError(f"{path}: damaged, or not in the safetensors format", remedy) from error
    except ValueError as error:
        raise DamagedError(f"{path}: damaged: {error}", remedy) from error
    with SkipInit(torch.device("cpu")):
        model = build()
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, tensor in tensors.items():
        own[name].data = tensor  # tied weights are one Parameter, so all uses change
    return model


def _read_header(path: Path) -> dict[str, tuple[str, list[int]]]:
    """Type and shape of each tensor."""
    with translate_read_errors(path), safe_open(path, "pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        return {name: (tensor.get_dtype(), tensor.get_shape()) for name, tensor in slices.items()}


def _mismatches(model: TranslationModel, header: dict[str, tuple[str, list[int]]]) -> list[str]:
    shapes: dict[str, Tensor] = {name: torch.empty(shape, device=META_DEVICE) for name, (_, shape) in header.items()}
    if errors := mismatches(model, shapes):
        return errors
    types = {name: DTYPES[tensor.dtype] for name, tensor in weights(model).items()}
    return [
        f"{name} is {header[name][0]}, the model has {types[name]}" for name in types if header[name][0] != types[name]
    ]
