"""Weights of a model folder as numpy arrays: compared by name, shape and type with the model, then memory-mapped.

Quantised weights are dequantised into new memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import DamagedError, DataError
from mtkit.model_folder.quantised_weights import TensorType, dequantise, dequantised_header
from mtkit.model_folder.safetensors_file import map_tensors
from mtkit.models.mismatches import first_of, shape_mismatches


def read_weights(
    path: Path, expected: Callable[[], Mapping[str, TensorType]], *, remedy: str
) -> dict[str, NDArray[Any]]:
    """Read the weights of a model.

    The file's header is compared with the model before memory is allocated.

    Args:
        expected: type and shape of each weight of the model.

    Raises:
        MissingInputError, ReadWriteError: there is no such file, or it cannot be read.
        DataError: the file is damaged, or has the weights of another model; the first mismatches are listed.
    """
    try:
        header, arrays = map_tensors(path)
        found = dequantised_header({name: (entry.dtype, entry.shape) for name, entry in header.items()})
    except ValueError as error:
        raise DamagedError(f"{path}: damaged, or not in the safetensors format: {error}", remedy) from error
    if mismatches := _mismatches(expected(), found):
        raise DataError(f"{path}: the weights do not match the model: {first_of(mismatches)}; {remedy}")
    try:
        return dequantise(arrays)
    except ValueError as error:
        raise DamagedError(f"{path}: damaged: {error}", remedy) from error


def num_parameters(path: Path) -> int:
    """Number of weights in a file; errors as `read_weights`."""
    try:
        header, _ = map_tensors(path)
    except ValueError as error:
        raise DataError(f"{path}: not a readable safetensors file ({error})") from error
    stored = {name: (entry.dtype, entry.shape) for name, entry in header.items()}
    return sum(int(np.prod(shape)) for _, shape in dequantised_header(stored).values())


def check_finite(weights: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Check the weights of a model: two passes over their memory.

    Raises:
        DataError: a weight is NaN or infinite; the message names its file and the first tensor.
    """
    for name, array in weights.items():
        is_float = array.size and np.issubdtype(array.dtype, np.floating)
        if is_float and not (np.isfinite(array.min()) and np.isfinite(array.max())):  # NaN is the least and the largest
            raise DataError(
                f"{path}: the tensor {name} contains NaN or infinity, so that the model cannot translate; its training "
                "failed, train it again or choose another model"
            )


def _mismatches(expected: Mapping[str, TensorType], found: Mapping[str, TensorType]) -> list[str]:
    """Mismatches of the shapes; of the types if there are none."""
    of_shapes = shape_mismatches(*({name: shape for name, (_, shape) in each.items()} for each in (expected, found)))
    return of_shapes or sorted(
        f"{name} is {found[name][0]}, the model has {dtype}"
        for name, (dtype, _) in expected.items()
        if found[name][0] != dtype
    )
