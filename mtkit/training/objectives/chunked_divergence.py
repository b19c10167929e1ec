"""Divergence of a student's distribution from a teacher's, computed in chunks of positions.

As in chunked_loss.py, the forward pass also computes the gradient, while the logits of a chunk exist.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mtkit.layers.matmul import mm_transposed, weight_grad
from mtkit.layers.precision import compute_dtype
from mtkit.training.chunked_loss import CHUNK_SIZE, row_blocks


def divergence_(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Sum KL(p || q) of p = softmax(teacher / T) and q = softmax(student / T), and overwrite the student with q - p.

    Args:
        student: [n, V] logits; overwritten.
        teacher: [n, V] logits.
        temperature: T.

    Returns:
        Scalar, nats summed over the n positions, float32 at least.
    """
    wide = torch.promote_types(student.dtype, torch.float32)
    total = student.new_zeros((), dtype=wide)
    for block in row_blocks(student):
        log_q, log_p = (each[block].to(wide).div(temperature).log_softmax(1) for each in (student, teacher))
        p = log_p.exp()
        total += (log_p.sub_(log_q).mul_(p)).sum()
        student[block] = log_q.exp_().sub_(p)
    return total


class _ChunkedDivergence(torch.autograd.Function):
    """T² KL(p || q) of projected states; d / d (student's logits) = T (q - p)."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        taught: Tensor,
        taught_weight: Tensor,
        taught_bias: Tensor | None,
        temperature: float,
    ) -> Tensor:
        dtype = compute_dtype(hidden)
        wide = torch.promote_types(dtype, torch.float32)
        low, low_weight, taught, taught_weight = (x.to(dtype) for x in (hidden, weight, taught, taught_weight))
        total = hidden.new_zeros((), dtype=wide)
        grad_hidden = torch.empty_like(hidden, dtype=wide)  # [N, D]
        grad_weight = torch.zeros_like(weight, dtype=wide)  # [V, D]
        grad_bias = None if bias is None else torch.zeros_like(bias, dtype=wide)  # [V]
        for start in range(0, hidden.size(0), CHUNK_SIZE):
            chunk = slice(start, start + CHUNK_SIZE)
            student, teacher = mm_transposed(low[chunk], low_weight), mm_transposed(taught[chunk], taught_weight)
            for logits, added in ((student, bias), (teacher, taught_bias)):
                if added is not None:
                    logits += added
            total += divergence_(student, teacher, temperature)
            if any(ctx.needs_input_grad):
                grad_hidden[chunk] = mm_transposed(student, low_weight.mT)
                grad_weight += weight_grad(student, low[chunk])
                if grad_bias is not None:
                    grad_bias += student.sum(0, dtype=wide)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.dtypes = hidden.dtype, weight.dtype, None if bias is None else bias.dtype
        ctx.temperature = temperature
        return total * temperature**2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        factor = grads[0] * ctx.temperature
        scaled = (
            None if saved is None else saved.mul(factor.to(saved.dtype)).to(dtype)
            for saved, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        )
        return *scaled, None, None, None, None


def chunked_divergence(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    taught: Tensor,
    taught_weight: Tensor,
    taught_bias: Tensor | None,
    *,
    temperature: float,
) -> Tensor:
    """T² KL(softmax(teacher / T) || softmax(student / T)) of projected states. Hinton et al. 2015, sec. 2.

    Args:
        hidden: [N, D] decoder states of the student.
        weight: [V, D] its output embedding.
        bias: [V], or None.
        taught: [N, D'] decoder states of the teacher; no gradient.
        taught_weight: [V, D'] its output embedding; no gradient.
        taught_bias: [V], or None; no gradient.
        temperature: T.

    Returns:
        Scalar, nats summed over the N positions.
    """
    inputs = (hidden, weight, bias, taught, taught_weight, taught_bias, temperature)
    loss: Tensor = _ChunkedDivergence.apply(*inputs)  # type: ignore[no-untyped-call]
    return loss
