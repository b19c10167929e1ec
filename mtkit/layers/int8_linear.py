"""A projection by eight-bit integers, for translation on a processor."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LARGEST = 127  # of a signed byte, used symmetrically
AT_ONCE = 1 << 20  # sums that exist at one time; more are fetched anew from the system in every call
LEAST = 1e-30  # absolute maximum of a row of zeros, so that nothing is divided by zero


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

    @classmethod
    def of(cls, layer: nn.Linear) -> Int8Linear:
        """The layer's nearest weights; the layer is not changed."""
        quantised, scale = quantise(layer.weight.detach().float())
        bias = None if layer.bias is None else layer.bias.detach().float()
        return cls(quantised.T.contiguous(), scale.squeeze(1), bias)

    def narrowed(self, columns: Tensor) -> Int8Linear:
        """The projection to the outputs `columns` [C] alone."""
        bias = None if self.bias is None else self.bias[columns]
        return Int8Linear(self.inner.index_select(1, columns), self.scale[columns], bias)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D_in] -> [..., D_out], of the type of x."""
        flat = x.reshape(-1, x.size(-1)).float()  # [N, D_in]
        y = flat.new_empty(flat.size(0), self.scale.numel())  # [N, D_out]
        rows = max(1, AT_ONCE // y.size(1))
        for part, out in zip(torch.split(flat, rows), torch.split(y, rows), strict=True):
            quantised, scale = quantise(part)
            torch.mul(torch._int_mm(quantised, self.inner), scale, out=out).mul_(self.scale)
        if self.bias is not None:
            y += self.bias
        return y.view(*x.shape[:-1], y.size(1)).to(x.dtype)


def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of x [N, D] as bytes [N, D], and the scale [N, 1] of each: x is nearly their product."""
    scale = x.abs().amax(1, keepdim=True).clamp_(min=LEAST).div_(LARGEST)  # [N, 1]
    return (x / scale).round_().to(torch.int8), scale
