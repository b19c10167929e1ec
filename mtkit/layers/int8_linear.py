"""A projection by eight-bit integers, for translation on a processor."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mtkit.hardware import cpu_has_byte_products

LARGEST = 127  # of a signed byte, used symmetrically
ZERO = 128  # the unsigned byte that stands for zero
AT_ONCE = 1 << 20  # sums that exist at one time; more are fetched anew from the system in every call
LEAST_MAXIMUM = 1e-30  # absolute maximum of a row of zeros, so that nothing is divided by zero
# Outputs from which oneDNN's product, which turns sums into floats itself, is faster than torch's and two more passes.
# One thread of an Intel Xeon with VNNI, 64 and 256 rows, µs: to 1,024 outputs 124 and 388 against 113 and 482, to 8,000
# 652 and 2,462 against 1,004 and 4,045 (float32: 1,542 and 6,668).
WIDE = 2048


class Int8Linear(nn.Module):
    """y = x W^T + b with x and W as bytes: exact integer sums, each row of x and each row of W with a scale of its own.

    Wu et al. 2016, sec. 6, https://arxiv.org/abs/1609.08144, with scales that come from the numbers at hand. The scale
    of a row of x is its largest absolute value, so that a row's result depends on nothing else in its batch.
    """

    inner: Tensor  # [D_in, D_out] int8
    scale: Tensor  # [D_out]
    bias: Tensor | None

    def __init__(self, inner: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("inner", inner)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)
        wide = scale.numel() >= WIDE and cpu_has_byte_products()
        self.packed = torch.ops.onednn.qlinear_prepack(inner.T.contiguous(), None) if wide else None

    @classmethod
    def of(cls, layer: nn.Linear) -> Int8Linear:
        """The layer's nearest weights; the layer is not changed."""
        rounded, scale = quantise(layer.weight.detach().float())
        bias = None if layer.bias is None else layer.bias.detach().float()
        return cls(rounded.to(torch.int8).T.contiguous(), scale.squeeze(1), bias)

    def narrowed(self, columns: Tensor) -> Int8Linear:
        """The projection to the outputs `columns` [C] alone."""
        bias = None if self.bias is None else self.bias[columns]
        return Int8Linear(self.inner.index_select(1, columns), self.scale[columns], bias)

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
        rows = max(1, AT_ONCE // y.size(1))
        for part, out in zip(torch.split(x, rows), torch.split(y, rows), strict=True):
            rounded, scale = quantise(part)
            torch.mul(torch._int_mm(rounded.to(torch.int8), self.inner), scale, out=out).mul_(self.scale)
        return y

    def _by_onednn(self, x: Tensor, packed: Tensor) -> Tensor:
        """x [N, D_in] -> [N, D_out], without the bias."""
        rounded, scale = quantise(x)
        unsigned = rounded.add_(ZERO).to(torch.uint8)
        zeros = torch.zeros_like(self.scale, dtype=torch.int32)  # of the weights
        weights, output = (packed, self.scale, zeros, None), (1.0, 0, torch.float32)  # no bias; scale, zero, type
        y: Tensor = torch.ops.onednn.qlinear_pointwise(unsigned, 1.0, ZERO, *weights, *output, "none", [], "")
        return y.mul_(scale)


def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of x [N, D] as whole numbers up to LARGEST, and the scale [N, 1] of each: x is nearly their product."""
    scale = x.abs().amax(1, keepdim=True).clamp_(min=LEAST_MAXIMUM).div_(LARGEST)  # [N, 1]
    return (x / scale).round_(), scale
