"""Softmax of attention scores, fast on a CPU, where torch's kernels are slow for short rows and for bf16.

A row shorter than a vector register is computed number by number, and a softmax in bf16 takes four times as long as one
in float32 (measured: see tests/benchmarks/NOTES.md).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

MIN_WIDTH = 16  # floats in the widest vector registers


def softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension, in the type of the scores; on a CPU computed in float32 at least."""
    if scores.device.type not in ("cpu", "meta") or torch.compiler.is_compiling():
        return scores.softmax(-1)  # an exported graph has no sizes to compare
    if not scores.requires_grad:
        return _softmax(scores)
    weights: Tensor = _Softmax.apply(scores)  # type: ignore[no-untyped-call]
    return weights


def _softmax(scores: Tensor) -> Tensor:
    """Softmax of rows that are padded to MIN_WIDTH scores; the result may be a view of wider rows."""
    width, wide = scores.size(-1), torch.promote_types(scores.dtype, torch.float32)
    if width < MIN_WIDTH:
        scores = F.pad(scores, (0, MIN_WIDTH - width), value=float("-inf"))
    return scores.softmax(-1, dtype=wide)[..., :width].to(scores.dtype)


class _Softmax(torch.autograd.Function):
    """w = softmax(s) with d s = w · (d w - sum(w · d w))."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = _softmax(scores)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (grad,), (weights,) = grads, ctx.saved_tensors
        dtype, wide = weights.dtype, torch.promote_types(weights.dtype, torch.float32)
        if dtype == wide and weights.size(-1) >= MIN_WIDTH:
            return torch._softmax_backward_data(grad, weights, -1, dtype)
        grad, weights = grad.to(wide), weights.to(wide)
        product: Tensor = grad * weights
        return torch.sub(grad, product.sum(-1, keepdim=True), out=product).mul_(weights).to(dtype)
