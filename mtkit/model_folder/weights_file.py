"""Weights of a model folder: read as numpy arrays, compared with the model by name, shape and type; their storages.

A file is memory-mapped. Weights may also be stored in 16, 8 and 4 bits, or without their zeros; each is float32 again,
in new memory, where it is used, so that a backend that packs them one by one never holds all in float32.

bf16: the upper 16 bits, rounded to the nearest even.
int8: one scale for each row of a matrix, w ≈ scale · q with |q| <= 127 (Wu et al. 2016, sec. 6,
https://arxiv.org/abs/1609.08144). int4: one scale for each group of GROUP_SIZE weights of a row, |q| <= 7, two in a
byte; of several scales the one with the least squared error is chosen. Tables of tokens keep 8 bits in int4 as well:
an error there shifts all scores of a token. Vectors and small matrices stay in float32.

sparse: the weights that are not 0, and one bit for each weight: whether it is one of them.

The values of tensor X are in X, an int8 or uint8 tensor, and its scales in X.scale; those of a sparse X are a vector,
and X.mask has a bit for each weight. Quantising a matrix that was read from int8 gives the same integers again, so that
compute type int8 computes with the integers of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import DamagedError, DataError
from mtkit.inference.packing import as_float32
from mtkit.io.safetensors_file import map_tensors
from mtkit.models.mismatches import first_of, shape_mismatches

if TYPE_CHECKING:
    from torch import Tensor

Storage = Literal["float32", "bf16", "int8", "int4", "sparse"]

TensorType = tuple[str, tuple[int, ...]]  # type as the safetensors format names it, and shape

GROUP_SIZE = 32  # weights that share a scale of 16 bits: 4.5 bits a weight
SCALE, MASK = ".scale", ".mask"
INT4_MAX = 7
MIN_WEIGHTS = 1024  # smaller matrices are not worth a scale
TABLES = ("table.weight", "output.weight")  # ends of the names of embeddings and output projections
INT8_MAX = 127
CHUNK_ROWS = 4096  # rows of a matrix that are quantised at a time
SHRINKAGES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)  # of the scale that represents the largest weight of a group
MIN_SCALE = 1e-7  # of a group of zeros; float16 represents it


def read_weights(path: Path, expected: Callable[[], Mapping[str, TensorType]], *, remedy: str) -> StoredWeights:
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
        found = dequantised_header({name: entry[:2] for name, entry in header.items()})
    except ValueError as error:
        raise DamagedError(f"{path}: damaged, or not in the safetensors format: {error}", remedy) from error
    model = expected()
    shapes, found_shapes = ({name: shape for name, (_, shape) in each.items()} for each in (model, found))
    mismatches = shape_mismatches(shapes, found_shapes) or sorted(
        f"{name} is {found[name][0]}, the model has {dtype}"
        for name, (dtype, _) in model.items()
        if found[name][0] != dtype
    )
    if mismatches:
        raise DataError(f"{path}: the weights do not match the model: {first_of(mismatches)}; {remedy}")
    try:
        return StoredWeights(arrays)
    except ValueError as error:
        raise DamagedError(f"{path}: damaged: {error}", remedy) from error


def num_parameters(path: Path) -> int:
    """Number of weights in a file; errors as `read_weights`."""
    try:
        header, _ = map_tensors(path)
    except ValueError as error:
        raise DataError(f"{path}: not a readable safetensors file ({error})") from error
    stored = dequantised_header({name: entry[:2] for name, entry in header.items()})
    return sum(int(np.prod(shape)) for _, shape in stored.values())


def quantise_tensors(tensors: Mapping[str, Tensor], storage: Storage) -> dict[str, Tensor]:
    """Tensors as they are stored.

    Args:
        tensors: weights of a model by name; those that are not float32 stay, and so do columns, such as scales.
        storage: number format of the large matrices.
    """
    import torch

    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        is_matrix = tensor.dim() == 2 and tensor.size(1) > 1 and tensor.numel() >= MIN_WEIGHTS
        if storage == "float32" or not is_matrix or tensor.dtype != torch.float32:
            stored[name] = tensor
        elif storage == "sparse" and tensor.size(1) % 8 == 0:
            is_set = tensor != 0  # [R, C]
            bits = is_set.view(tensor.size(0), -1, 8).to(torch.uint8) << torch.arange(8, dtype=torch.uint8)
            stored[name] = tensor[is_set]
            stored[name + MASK] = bits.sum(2, dtype=torch.uint8)  # [R, C/8], the first of eight in the lowest bit
        elif storage == "sparse":
            stored[name] = tensor
        elif storage == "bf16":
            stored[name] = tensor.to(torch.bfloat16)
        elif storage == "int4" and tensor.size(1) % GROUP_SIZE == 0 and not name.endswith(TABLES):
            stored[name], stored[name + SCALE] = _quantise_int4(tensor)
        else:
            integers, scale = torch.empty_like(tensor, dtype=torch.int8), tensor.new_empty(len(tensor), 1)
            for first in range(0, len(tensor), CHUNK_ROWS):  # tables of many languages are large
                rows = slice(first, first + CHUNK_ROWS)
                part = tensor[rows]
                scale[rows] = part.abs().amax(1, keepdim=True).clamp(min=MIN_SCALE) / INT8_MAX  # [R, 1]
                integers[rows] = (part / scale[rows]).round().to(torch.int8)
            stored[name], stored[name + SCALE] = integers, scale
    return stored


def _quantise_int4(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Bytes [R, C/2], the first weight of a pair in the low bits, and scales [R, C/GROUP_SIZE]."""
    import torch

    groups = weight.view(weight.size(0), -1, GROUP_SIZE)  # [R, G, GROUP_SIZE]
    largest = groups.abs().amax(2, keepdim=True).clamp(min=MIN_SCALE) / INT4_MAX  # [R, G, 1]
    candidates = torch.stack([(largest * shrinkage).half().float() for shrinkage in SHRINKAGES])
    candidates = candidates.clamp(min=MIN_SCALE)  # [M, R, G, 1]
    integers = (groups / candidates).round().clamp(-INT4_MAX, INT4_MAX)  # [M, R, G, GROUP_SIZE]
    best = (integers * candidates - groups).square().sum(3, keepdim=True).argmin(0, keepdim=True)  # [1, R, G, 1]
    scale = candidates.gather(0, best).view(weight.size(0), -1)  # [R, G]
    chosen = integers.gather(0, best.expand(1, *groups.shape))[0].view(weight.size(0), -1, 2)  # [R, C/2, 2]
    low, high = (chosen + INT4_MAX + 1).to(torch.uint8).unbind(2)
    return low | (high << 4), scale.half()


class StoredWeights(Mapping[str, NDArray[Any]]):
    """Weights of a model from those in its file, in any storage; each is computed when it is asked for.

    Attributes:
        stored: the tensors of the file.
    """

    def __init__(self, stored: Mapping[str, NDArray[Any]]) -> None:
        """Take the tensors of a file; ValueError if a mask does not fit its weights."""
        self.stored = stored
        self._names = [name for name in stored if not _is_auxiliary(name, stored)]
        for name in self._names:
            mask = stored.get(name + MASK)
            if mask is not None and (count := int(np.unpackbits(mask).sum())) != stored[name].size:
                raise ValueError(f"{name}: {stored[name].size} weights, but its mask shows {count}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if _is_auxiliary(name, self.stored):
            raise KeyError(name)
        values, scale, mask = (self.stored[name], *(self.stored.get(name + end) for end in (SCALE, MASK)))
        if mask is not None:
            is_set = np.unpackbits(mask, axis=1, bitorder="little").astype(np.bool_)  # [R, C]
            weight: NDArray[Any] = np.zeros(is_set.shape, dtype=values.dtype)
            weight[is_set] = values
            return weight
        if scale is None:
            return as_float32(values) if values.dtype == np.uint16 else values  # the bits of bfloat16
        if values.dtype == np.int8:
            product: NDArray[Any] = np.multiply(values, scale, dtype=np.float32)
            return product
        # bytes [R, C/2], the first weight of a pair in the low bits, and scales [R, C/GROUP_SIZE]
        integers = np.stack([values & 15, values >> 4], axis=2).astype(np.float32) - (INT4_MAX + 1)  # [R, C/2, 2]
        groups = integers.reshape(len(values), -1, GROUP_SIZE) * scale.astype(np.float32)[:, :, None]
        return np.ascontiguousarray(groups.reshape(len(values), -1))


def dequantised_header(header: Mapping[str, TensorType]) -> dict[str, TensorType]:
    """Type and shape of each array of `StoredWeights`, from those in a file.

    A tensor whose scales do not fit keeps its integer type, which no model has.
    """
    result: dict[str, TensorType] = {}
    for name, (dtype, shape) in header.items():
        scale, mask = header.get(name + SCALE), header.get(name + MASK)
        if len(shape) != 2:
            scale = None
        if mask is not None and mask[0] == "U8" and len(mask[1]) == 2:
            result[name] = (dtype, (mask[1][0], 8 * mask[1][1]))
        elif scale is not None and dtype == "I8" and scale == ("F32", (shape[0], 1)):
            result[name] = ("F32", shape)
        elif scale is not None and dtype == "U8" and scale == ("F16", (shape[0], 2 * shape[1] // GROUP_SIZE)):
            result[name] = ("F32", (shape[0], 2 * shape[1]))
        elif not _is_auxiliary(name, header):
            result[name] = ("F32" if dtype == "BF16" else dtype, shape)
    return result


def _is_auxiliary(name: str, names: Container[str]) -> bool:
    """Return whether a tensor holds scales or a mask of another one."""
    return any(name.endswith(end) and name.removesuffix(end) in names for end in (SCALE, MASK))
