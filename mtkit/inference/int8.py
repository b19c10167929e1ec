"""Projections in 8-bit integers, for translation on a CPU."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from mtkit.hardware import cpu_has_vnni
from mtkit.inference.bf16 import projections
from mtkit.layers.matmul import has_onednn
from mtkit.models.interface import OutputProjection, TranslationModel

INT8_MAX = 127  # of a symmetric signed byte
ZERO_POINT = 128  # the unsigned byte that represents zero
MAX_CHUNK = 1 << 20  # int32 sums computed at once; the allocator returns larger blocks to the system after every call
MIN_ABS_MAX = 1e-30  # of a row of zeros, to avoid division by zero
ONEDNN_MIN_OUTPUTS = 2048  # from which oneDNN's product, which rescales by itself, is faster than torch._int_mm
EXACTNESS_TRIAL_SIZE = 64  # rows, inputs and outputs of a product that uses the widest instructions
MIN_WEIGHTS = 1 << 17  # smaller projections lose more time in quantisation than int8 saves


class Int8Linear(nn.Module, OutputProjection):
    """y = x W^T + b with x and W in int8: exact integer sums, one scale for each row of x and each row of W.

    Wu et al. 2016, sec. 6, https://arxiv.org/abs/1609.08144, with scales computed from the input. The scale of a row of
    x is its largest absolute value over 127, so that the result of a row does not depend on the rest of its batch.
    """

    weight_int8: Tensor  # [D_in, D_out] int8
    scale: Tensor  # [D_out]
    bias: Tensor | None

    def __init__(self, weight_int8: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight_int8", weight_int8)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)
        use_onednn = scale.numel() >= ONEDNN_MIN_OUTPUTS and has_fast_int8() and has_onednn()
        self.packed = torch.ops.onednn.qlinear_prepack(weight_int8.T.contiguous(), None) if use_onednn else None

    @classmethod
    def of(cls, layer: nn.Linear) -> Int8Linear:
        """Quantise the weights of a layer, which is not changed."""
        rounded, scale = quantise(layer.weight.detach().float())
        bias = None if layer.bias is None else layer.bias.detach().float()
        return cls(rounded.to(torch.int8).T.contiguous(), scale.squeeze(1), bias)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D_in] -> [..., D_out], of the type of x."""
        flat = x.reshape(-1, x.size(-1)).float()  # [N, D_in]
        y = self._by_torch(flat) if self.packed is None or not len(flat) else self._by_onednn(flat, self.packed)
        if self.bias is not None:
            y += self.bias
        return y.view(*x.shape[:-1], y.size(1)).to(x.dtype)

    def _by_torch(self, x: Tensor) -> Tensor:
        """x [N, D_in] -> [N, D_out], without the bias."""
        y = x.new_empty(x.size(0), self.scale.numel())  # [N, D_out]
        rows = max(1, MAX_CHUNK // y.size(1))
        for chunk, out in zip(torch.split(x, rows), torch.split(y, rows), strict=True):
            rounded, scale = quantise(chunk)
            torch.mul(int_mm(rounded, self.weight_int8), scale, out=out).mul_(self.scale)
        return y

    def _by_onednn(self, x: Tensor, packed: Tensor) -> Tensor:
        """x [N, D_in] -> [N, D_out], without the bias."""
        rounded, scale = quantise(x)
        unsigned = rounded.add_(ZERO_POINT).to(torch.uint8)  # signed bytes are many times slower in oneDNN
        weight_zeros = torch.zeros_like(self.scale, dtype=torch.int32)
        weights, output = (
            (packed, self.scale, weight_zeros, None),
            (1.0, 0, torch.float32),
        )  # no bias; scale, zero, type
        y: Tensor = torch.ops.onednn.qlinear_pointwise(unsigned, 1.0, ZERO_POINT, *weights, *output, "none", [], "")
        return y.mul_(scale)


def int_mm(x: Tensor, weight_int8: Tensor) -> Tensor:
    """Product of integers x [N, D_in], given as floats, with weights [D_in, D_out] int8.

    Returns:
        [N, D_out] int32, or the same sums as float32 where the processor's int8 products are not exact.
    """
    return torch._int_mm(x.to(torch.int8), weight_int8) if has_exact_int8() else x @ weight_int8.float()


def has_fast_int8() -> bool:
    """Return whether int8 products are exact and faster than float32 products on this processor."""
    return cpu_has_vnni() and has_exact_int8()


@functools.cache
def has_exact_int8() -> bool:
    """Return whether torch has int8 products that are exact, from a product with the largest sums.

    Without VNNI, or if ONEDNN_MAX_CPU_ISA hides it, oneDNN adds pairs of products in 16 bits, where large sums
    saturate. The operator is not documented, so that another version or build of torch may lack it.
    """
    largest = torch.full((EXACTNESS_TRIAL_SIZE, EXACTNESS_TRIAL_SIZE), INT8_MAX, dtype=torch.int8)
    try:
        product = torch._int_mm(largest, largest)
    except (AttributeError, RuntimeError):
        return False
    return bool((product == INT8_MAX**2 * EXACTNESS_TRIAL_SIZE).all())


def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """Integers [N, D] up to INT8_MAX, as floats, and a scale [N, 1] for each row, whose product is nearly x [N, D]."""
    scale = x.abs().amax(1, keepdim=True).clamp_(min=MIN_ABS_MAX).div_(INT8_MAX)  # [N, 1]
    return (x / scale).round_(), scale


def quantise_projections(model: TranslationModel) -> None:
    """Replace the large projections of a model by Int8Linear, except those of tables in position encodings."""
    for parent, name, projection in list(projections(model)):
        if projection.weight.numel() >= MIN_WEIGHTS:
            setattr(parent, name, Int8Linear.of(projection))
