"""Quantisation of weights for a model folder; quantised_weights.py describes the formats and reads them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mtkit.model_folder.quantised_weights import GROUP_SIZE, INT4_MAX, MASK, SCALE, Storage

MIN_WEIGHTS = 1024  # smaller matrices are not worth a scale
TABLES = ("table.weight", "output.weight")  # ends of the names of embeddings and output projections
INT8_MAX = 127
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


def _without_zeros(name: str, weight: Tensor) -> dict[str, Tensor]:
    """The weights that are not 0, and the mask [R, C/8], the first of eight weights in the lowest bit."""
    is_set = weight != 0  # [R, C]
    bits = is_set.view(weight.size(0), -1, 8).to(torch.uint8) << torch.arange(8, dtype=torch.uint8)  # [R, C/8, 8]
    return {name: weight[is_set], name + MASK: bits.sum(2, dtype=torch.uint8)}


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
