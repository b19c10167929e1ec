"""Weights in 8 and 4 bits, or without their zeros, on disk; they are float32 again once a model is read.

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

from collections.abc import Container, Mapping
from typing import Literal

import torch
from torch import Tensor

Storage = Literal["float32", "int8", "int4", "sparse"]

GROUP_SIZE = 32  # weights that share a scale of 16 bits: 4.5 bits a weight
MIN_WEIGHTS = 1024  # smaller matrices are not worth a scale
SCALE, MASK = ".scale", ".mask"
TABLES = ("table.weight", "output.weight")  # ends of the names of embeddings and output projections
INT8_MAX, INT4_MAX = 127, 7
SHRINKAGES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)  # of the scale that represents the largest weight of a group
MIN_SCALE = 1e-7  # of a group of zeros; float16 represents it


def quantise_tensors(tensors: Mapping[str, Tensor], storage: Storage) -> dict[str, Tensor]:
    """Tensors as they are stored.

    Args:
        tensors: weights of a model by name, float32.
        storage: number format of the large matrices.
    """
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if storage == "float32" or tensor.dim() != 2 or tensor.numel() < MIN_WEIGHTS or tensor.dtype != torch.float32:
            stored[name] = tensor
        elif storage == "sparse":
            stored |= _without_zeros(name, tensor) if tensor.size(1) % 8 == 0 else {name: tensor}
        elif storage == "int4" and tensor.size(1) % GROUP_SIZE == 0 and not name.endswith(TABLES):
            stored[name], stored[name + SCALE] = _quantise_int4(tensor)
        else:
            stored[name], stored[name + SCALE] = _quantise_int8(tensor)
    return stored


def dequantise_tensors(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a model from tensors of `quantise_tensors`, in any storage.

    Raises:
        ValueError: a mask does not fit its weights.
    """
    tensors: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        if _is_auxiliary(name, stored):
            continue
        if name + MASK in stored:
            tensors[name] = _with_zeros(name, tensor, stored[name + MASK])
        elif name + SCALE not in stored:
            tensors[name] = tensor
        elif tensor.dtype == torch.int8:
            tensors[name] = tensor.float() * stored[name + SCALE]
        else:
            tensors[name] = _dequantise_int4(tensor, stored[name + SCALE])
    return tensors


def dequantised_header(header: Mapping[str, tuple[str, list[int]]]) -> dict[str, tuple[str, list[int]]]:
    """Type and shape of each tensor that `dequantise_tensors` returns, from those in a file.

    A tensor whose scales do not fit keeps its integer type, which no model has.
    """
    result: dict[str, tuple[str, list[int]]] = {}
    for name, (dtype, shape) in header.items():
        scale, mask = header.get(name + SCALE), header.get(name + MASK)
        if mask is not None and mask[0] == "U8" and len(mask[1]) == 2:
            result[name] = (dtype, [mask[1][0], 8 * mask[1][1]])
        elif scale is not None and dtype == "I8" and scale == ("F32", [shape[0], 1]):
            result[name] = ("F32", shape)
        elif scale is not None and dtype == "U8" and scale == ("F16", [shape[0], 2 * shape[1] // GROUP_SIZE]):
            result[name] = ("F32", [shape[0], 2 * shape[1]])
        elif not _is_auxiliary(name, header):
            result[name] = (dtype, shape)
    return result


def _is_auxiliary(name: str, names: Container[str]) -> bool:
    """Return whether a tensor holds scales or a mask of another one."""
    return any(name.endswith(end) and name.removesuffix(end) in names for end in (SCALE, MASK))


def _without_zeros(name: str, weight: Tensor) -> dict[str, Tensor]:
    """The weights that are not 0, and the mask [R, C/8], the first of eight weights in the lowest bit."""
    is_set = weight != 0  # [R, C]
    bits = is_set.view(weight.size(0), -1, 8).to(torch.uint8) << torch.arange(8, dtype=torch.uint8)  # [R, C/8, 8]
    return {name: weight[is_set], name + MASK: bits.sum(2, dtype=torch.uint8)}


def _with_zeros(name: str, values: Tensor, mask: Tensor) -> Tensor:
    """Inverse of `_without_zeros`, [R, C]."""
    is_set = (mask.unsqueeze(2) >> torch.arange(8, dtype=torch.uint8) & 1).bool().flatten(1)  # [R, C]
    if int(is_set.sum()) != values.numel():
        raise ValueError(f"{name}: {values.numel()} weights, but its mask shows {int(is_set.sum())}")
    weight = values.new_zeros(is_set.shape)
    weight[is_set] = values
    return weight


def _quantise_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Integers [R, C] and scales [R, 1]."""
    scale = weight.abs().amax(1, keepdim=True).clamp(min=MIN_SCALE) / INT8_MAX
    return (weight / scale).round().to(torch.int8), scale


def _quantise_int4(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Bytes [R, C/2], the first weight of a pair in the low bits, and scales [R, C/GROUP_SIZE]."""
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


def _dequantise_int4(packed: Tensor, scale: Tensor) -> Tensor:
    """Weights [R, C] from bytes [R, C/2] and scales [R, C/GROUP_SIZE]."""
    integers = torch.stack([packed & 15, packed >> 4], dim=2).float() - (INT4_MAX + 1)  # [R, C/2, 2]
    return (integers.view(packed.size(0), -1, GROUP_SIZE) * scale.float().unsqueeze(2)).view(packed.size(0), -1)
