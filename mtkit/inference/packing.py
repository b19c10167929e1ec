"""Weights packed for the native library: projections, norms, and the output projection of greedy search."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mtkit.hardware import num_threads
from mtkit.inference.support import CpuType
from mtkit.native.library import CONSTANTS, Linear, Norm, Pruned, native, run_in_chunks

T = TypeVar("T")
Float32 = NDArray[np.float32]
Weights = Mapping[str, NDArray[Any]]  # by name, as a model folder stores them; bfloat16 as the bits, uint16
TYPE_NUMBERS: dict[CpuType, int] = {
    "float32": CONSTANTS["FLOAT32"],
    "bf16": CONSTANTS["BFLOAT16"],
    "int8": CONSTANTS["INT8"],
}
NORMS = {"none": CONSTANTS["NO_NORM"], "layer": CONSTANTS["LAYER_NORM"], "rms": CONSTANTS["RMS_NORM"]}
INT8_MAX = 127  # of a symmetric signed byte
MIN_ABS_MAX = 1e-30  # of a row of zeros, to avoid division by zero


def as_float32(array: NDArray[Any]) -> Float32:
    """The array itself if it is float32 and contiguous; bfloat16, as the bits in uint16, and others converted."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(array, dtype=np.float32)


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

    linear: ctypes.Structure
    arrays: tuple[NDArray[Any] | None, ...]

    @classmethod
    def of(cls, weight: NDArray[Any], bias: NDArray[Any] | None, dtype: CpuType) -> PackedProjection:
        """Pack weights [D_out, D_in] and a bias [D_out]; int8 has a scale for each output."""
        weight = as_float32(weight)
        linear, panels = empty_projection(weight.shape, dtype)
        bias = None if bias is None else as_float32(bias)
        scale = np.empty(len(weight), dtype=np.float32) if dtype == "int8" else None
        linear.bias, linear.scale = address(bias), address(scale)
        function: Any = native().functions.mtkit_pack  # type: ignore[union-attr]

        def pack(first: int, count: int) -> None:
            check(function(address(weight), ctypes.byref(linear), first, count, address(panels), address(scale)))

        run_in_chunks(pack, len(weight), num_threads())
        return cls(linear, (panels, bias, scale))

    def with_bias(self, bias: NDArray[Any] | None) -> PackedProjection:
        """The projection with a bias [D_out], which shares the weights."""
        bias = None if bias is None else as_float32(bias)
        linear = Linear.from_buffer_copy(self.linear)
        linear.bias = address(bias)
        return PackedProjection(linear, (*self.arrays, bias))


def empty_projection(shape: tuple[int, ...], dtype: CpuType) -> tuple[ctypes.Structure, NDArray[np.int32]]:
    """A projection whose weights [D_out, D_in] are to be packed, and their memory."""
    functions: Any = native().functions
    outputs, inputs = shape
    number = TYPE_NUMBERS[dtype]
    panels = np.zeros(functions.mtkit_packed_elements(outputs, inputs, number), dtype=np.int32)
    return Linear(panels=address(panels), inputs=inputs, outputs=outputs, type=number), panels


class PrunedOutput:
    """An output projection that finds its largest output with 8-bit products; see c/ranking.h.

    Attributes:
        structure: of the library.
    """

    def __init__(self, weight: Float32, bias: NDArray[Any] | None) -> None:
        """Pack weights [V, D], which are kept for the outputs that the bound cannot exclude, and a bias [V]."""
        largest = np.maximum(weight.max(initial=0), -weight.min(initial=0))  # NaN if a weight is
        scale = max(float(largest), float(np.finfo(np.float32).tiny)) / INT8_MAX
        linear, self._panels = empty_projection(weight.shape, "int8")
        self._weight, self._bias = weight, None if bias is None else as_float32(bias)
        self.structure = Pruned(rounded=linear, weight=address(weight), bias=address(self._bias), scale=scale)
        function: Any = native().functions.mtkit_pack_pruned  # type: ignore[union-attr]
        maxima = [np.full(2, 0 if np.isfinite(largest) else np.nan, dtype=np.float32)]

        def pack(first: int, count: int) -> None:
            norms = np.empty(2, dtype=np.float32)
            check(function(ctypes.byref(self.structure), first, count, address(self._panels), address(norms)))
            maxima.append(norms)

        run_in_chunks(pack, len(weight), num_threads())
        self.structure.max_norm, self.structure.max_rounding_norm = np.max(maxima, axis=0).tolist()
        self.structure.max_bias = 0 if self._bias is None else np.abs(self._bias).max(initial=0)


# one function for each type, since PackedWeights finds weights by the function that packed them
_PACK: dict[CpuType, Callable[[NDArray[Any]], PackedProjection]] = {
    dtype: partial(PackedProjection.of, bias=None, dtype=dtype) for dtype in TYPE_NUMBERS
}


class PackedWeights:
    """Packed weights of a model by the arrays that they are made from, for models that have the same arrays.

    Attributes:
        is_complete: the model is packed; weights of others are not kept.
    """

    def __init__(self) -> None:
        self.is_complete = False
        self._packed: dict[tuple[object, ...], tuple[Any, Any]] = {}

    def get(self, pack: Callable[..., T], *arrays: NDArray[Any] | None) -> T:
        """The result of `pack(*arrays)`."""
        key = (pack, *map(id, arrays))
        if key in self._packed:
            known: T = self._packed[key][1]
            return known
        packed = pack(*arrays)
        if not self.is_complete:
            self._packed[key] = (arrays, packed)  # an array that lives keeps its id
        return packed


class Packer:
    """Packs weights by name, and keeps the packed ones alive, but not the weights."""

    def __init__(self, weights: Weights, dtype: CpuType, packed: PackedWeights | None = None) -> None:
        """Take weights, the type of packed ones, and the packed weights of other models, which are shared."""
        self.weights, self._packed = weights, packed
        self.kept: list[Any] = []
        self._pack = _PACK[dtype]

    def shared(self, pack: Callable[..., T], *arrays: NDArray[Any] | None) -> T:
        """The result of `pack(*arrays)`, perhaps that of another model."""
        return pack(*arrays) if self._packed is None else self._packed.get(pack, *arrays)

    def table(self, name: str) -> Float32:
        """The table NAME in float32."""
        return self.shared(as_float32, self.weights[name])

    def projection(self, name: str) -> ctypes.Structure:
        """The projection NAME.weight, with NAME.bias if there is one."""
        return self.pack(self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")).linear

    def pack(self, weight: NDArray[Any], bias: NDArray[Any] | None) -> PackedProjection:
        """A projection of weights [D_out, D_in] and a bias [D_out]."""
        packed = self.shared(self._pack, weight).with_bias(bias)
        self.kept.append(packed)
        return packed

    def norm(self, name: str, config: Any, scale: float) -> ctypes.Structure:
        """The norm NAME, of a supported configuration, whose result is multiplied by `scale`."""
        kind = NORMS[config.kind]
        if kind == CONSTANTS["NO_NORM"]:
            return Norm(kind=kind)
        arrays = [self.weights.get(f"{name}.{part}") for part in ("weight", "bias")]
        weight, bias = (None if each is None else as_float32(each) * np.float32(scale) for each in arrays)
        self.kept.append((weight, bias))
        return Norm(weight=address(weight), bias=address(bias), epsilon=config.epsilon, kind=kind)
