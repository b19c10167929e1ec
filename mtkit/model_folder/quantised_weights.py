"""Weights in 8 and 4 bits, or without their zeros, on disk; they are float32 again once a model is read.

int8: one scale for each row of a matrix, w ≈ scale · q with |q| <= 127 (Wu et al. 2016, sec. 6,
https://arxiv.org/abs/1609.08144). int4: one scale for each group of GROUP_SIZE weights of a row, |q| <= 7, two in a
byte; of several scales the one with the least squared error is chosen. Tables of tokens keep 8 bits in int4 as well:
an error there shifts all scores of a token. Vectors and small matrices stay in float32.

sparse: the weights that are not 0, and one bit for each weight: whether it is one of them. quantise.py writes these.

The values of tensor X are in X, an int8 or uint8 tensor, and its scales in X.scale; those of a sparse X are a vector,
and X.mask has a bit for each weight. Quantising a matrix that was read from int8 gives the same integers again, so that
compute type int8 computes with the integers of the file.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Storage = Literal["float32", "int8", "int4", "sparse"]

TensorType = tuple[str, tuple[int, ...]]  # type as the safetensors format names it, and shape

GROUP_SIZE = 32  # weights that share a scale of 16 bits: 4.5 bits a weight
SCALE, MASK = ".scale", ".mask"
INT4_MAX = 7


def dequantise(stored: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Weights of a model from those in its file, in any storage.

    Raises:
        ValueError: a mask does not fit its weights.
    """
    weights: dict[str, NDArray[Any]] = {}
    for name, values in stored.items():
        if _is_auxiliary(name, stored):
            continue
        if name + MASK in stored:
            weights[name] = _with_zeros(name, values, stored[name + MASK])
        elif name + SCALE not in stored:
            weights[name] = values
        elif values.dtype == np.int8:
            weights[name] = values.astype(np.float32) * stored[name + SCALE]
        else:
            weights[name] = _dequantise_int4(values, stored[name + SCALE])
    return weights


def dequantised_header(header: Mapping[str, TensorType]) -> dict[str, TensorType]:
    """Type and shape of each array that `dequantise` returns, from those in a file.

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
            result[name] = (dtype, shape)
    return result


def _is_auxiliary(name: str, names: Container[str]) -> bool:
    """Return whether a tensor holds scales or a mask of another one."""
    return any(name.endswith(end) and name.removesuffix(end) in names for end in (SCALE, MASK))


def _with_zeros(name: str, values: NDArray[Any], mask: NDArray[Any]) -> NDArray[Any]:
    """Matrix [R, C] of the weights that are not 0, and a mask [R, C/8], the first of eight in the lowest bit."""
    is_set = np.unpackbits(mask, axis=1, bitorder="little").astype(np.bool_)  # [R, C]
    if int(is_set.sum()) != values.size:
        raise ValueError(f"{name}: {values.size} weights, but its mask shows {int(is_set.sum())}")
    weight = np.zeros(is_set.shape, dtype=values.dtype)
    weight[is_set] = values
    return weight


def _dequantise_int4(packed: NDArray[Any], scale: NDArray[Any]) -> NDArray[Any]:
    """Weights [R, C] from bytes [R, C/2], the first of a pair in the low bits, and scales [R, C/GROUP_SIZE]."""
    integers = np.stack([packed & 15, packed >> 4], axis=2).astype(np.float32) - (INT4_MAX + 1)  # [R, C/2, 2]
    groups = integers.reshape(len(packed), -1, GROUP_SIZE) * scale.astype(np.float32)[:, :, None]
    return np.ascontiguousarray(groups.reshape(len(packed), -1))
