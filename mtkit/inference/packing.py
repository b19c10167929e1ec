"""Weights packed for the native library: projections, norms, and the output projection of greedy search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mtkit.inference.library import native
from mtkit.inference.structures import Linear, Norm, Pruned

Float32 = NDArray[np.float32]
Weights = Mapping[str, NDArray[Any]]  # by name, as a model folder stores them; bfloat16 as the bits, uint16
WeightType = Literal["float32", "bf16", "int8"]
TYPE_NUMBERS: dict[WeightType, int] = {"float32": 0, "bf16": 1, "int8": 2}  # as in c/products.h
ZERO_POINT = 128  # the unsigned byte that represents zero
INT8_MAX = 127  # of a symmetric signed byte
ROWS_AT_ONCE = 2048  # of a matrix that is rounded
MIN_ABS_MAX = 1e-30  # of a row of zeros, to avoid division by zero
NO_NORM, LAYER_NORM, RMS_NORM = 0, 1, 2  # as in c/layers.h


def as_float32(array: NDArray[Any]) -> Float32:
    """The array itself if it is float32 and contiguous; bfloat16, as the bits in uint16, and others converted."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(array, dtype=np.float32)


def to_bfloat16(array: Float32) -> NDArray[np.uint16]:
    """The bits of bfloat16, rounded to nearest even; NaN stays NaN."""
    bits = array.view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(array), bits >> 16 | 64, rounded).astype(np.uint16)


def address(array: NDArray[Any] | None) -> int | None:
    """Address of a contiguous array, which its owner must keep alive; None for None."""
    return None if array is None else array.ctypes.data


def check(succeeded: int) -> None:
    """Raise MemoryError unless a function of the library succeeded."""
    if not succeeded:
        raise MemoryError("can't allocate memory (native library)")


@dataclass(frozen=True)
class PackedProjection:
    """A projection in the form of the library.

    Attributes:
        linear: the structure.
        arrays: keep its memory alive.
    """

    linear: Linear
    arrays: tuple[NDArray[Any] | None, ...]

    @classmethod
    def of(cls, weight: NDArray[Any], bias: NDArray[Any] | None, dtype: WeightType) -> PackedProjection:
        """Pack weights [D_out, D_in] and a bias [D_out]; int8 has a scale for each output."""
        weight = as_float32(weight)
        if dtype == "float32":
            return cls._pack(weight, dtype, bias, None)
        if dtype == "bf16":
            return cls._pack(to_bfloat16(weight), dtype, bias, None)
        scale = np.maximum(np.abs(weight).max(1, keepdims=True, initial=0), np.float32(MIN_ABS_MAX)) / INT8_MAX
        with np.errstate(invalid="ignore"):  # NaN and infinity
            integers = (np.rint(weight / scale) + ZERO_POINT).astype(np.uint8)
        return cls._pack(integers, dtype, bias, scale[:, 0].astype(np.float32))

    @classmethod
    def _pack(
        cls, weight: NDArray[Any], dtype: WeightType, bias: NDArray[Any] | None, scale: Float32 | None
    ) -> PackedProjection:
        functions: Any = native().functions
        outputs, inputs = weight.shape
        number = TYPE_NUMBERS[dtype]
        weight = np.ascontiguousarray(weight)
        panels = np.empty(functions.mtkit_packed_elements(outputs, inputs, number), dtype=np.int32)
        functions.mtkit_pack(address(weight), outputs, inputs, number, address(panels))
        bias = None if bias is None else as_float32(bias)
        linear = Linear(address(panels), address(bias), address(scale), inputs, outputs, number)
        return cls(linear, (panels, bias, scale))


class PrunedOutput:
    """An output projection that finds its largest output with 8-bit products; see c/ranking.h.

    Attributes:
        structure: of the library.
    """

    def __init__(self, weight: Float32, bias: NDArray[Any] | None) -> None:
        """Pack weights [V, D], which are kept for the outputs that the bound cannot exclude, and a bias [V]."""
        # a part of the rows at a time: whole arrays of temporary numbers are several times as large as the result
        parts = [slice(first, first + ROWS_AT_ONCE) for first in range(0, len(weight), ROWS_AT_ONCE)]
        largest = np.max([np.abs(weight[rows]).max(initial=0) for rows in parts], initial=0)  # NaN if a weight is
        scale = max(float(largest), float(np.finfo(np.float32).tiny)) / INT8_MAX
        unsigned = np.empty(weight.shape, dtype=np.uint8)
        norms = np.zeros((len(parts), 2), dtype=np.float32)  # largest of weights and of rounding errors
        for number, rows in enumerate(parts):
            with np.errstate(invalid="ignore", over="ignore"):  # the norms are not finite then
                integers = np.rint(weight[rows] / np.float32(scale))
                errors = weight[rows] - integers * np.float32(scale)
                norms[number] = [np.linalg.norm(each, axis=1).max(initial=0) for each in (weight[rows], errors)]
            integers = np.nan_to_num(integers, nan=0, posinf=INT8_MAX, neginf=-INT8_MAX)
            unsigned[rows] = (integers + ZERO_POINT).astype(np.uint8)
        self._packed = PackedProjection._pack(unsigned, "int8", None, None)
        self._weight, self._bias = weight, None if bias is None else as_float32(bias)
        self.structure = Pruned(
            self._packed.linear, address(weight), address(self._bias), scale, *norms.max(0, initial=0).tolist()
        )


class Packer:
    """Packs parts of a model by name, and keeps their memory alive."""

    def __init__(self, weights: Weights, dtype: WeightType) -> None:
        self.weights, self.dtype = weights, dtype
        self.kept: list[Any] = []

    def projection(self, name: str) -> Linear:
        """The projection NAME.weight, with NAME.bias if there is one."""
        packed = PackedProjection.of(self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"), self.dtype)
        self.kept.append(packed)
        return packed.linear

    def norm(self, name: str, kind: int, epsilon: float) -> Norm:
        """The norm NAME."""
        if kind == NO_NORM:
            return Norm(kind=NO_NORM)
        arrays = [self.weights.get(f"{name}.{part}") for part in ("weight", "bias")]
        weight, bias = (None if each is None else as_float32(each) for each in arrays)
        self.kept.append((weight, bias))
        return Norm(address(weight), address(bias), epsilon, kind)
