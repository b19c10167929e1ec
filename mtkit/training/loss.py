"""Label-smoothed cross-entropy that never holds the logits of all positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK = 512  # positions whose logits exist at one time; 256 to 512 measured best on CPU


class _ChunkedLoss(torch.autograd.Function):
    """Projection and loss chunk by chunk; the gradient is computed in the forward pass, while the logits are there."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float, wants: bool
    ) -> Tensor:
        vocab = weight.size(0)
        dtype = torch.get_autocast_dtype(hidden.device.type) if _autocast(hidden) else hidden.dtype
        full = torch.promote_types(dtype, torch.float32)
        hidden_low, weight_low = hidden.to(dtype), weight.to(dtype)
        total = hidden.new_zeros((), dtype=full)
        grad_hidden = torch.empty_like(hidden_low) if wants else None
        grad_weight = torch.zeros_like(weight, dtype=full) if wants else None
        grad_bias = torch.zeros_like(bias, dtype=full) if wants and bias is not None else None
        for begin in range(0, hidden.size(0), CHUNK):
            part = slice(begin, begin + CHUNK)
            logits = (hidden_low[part] @ weight_low.mT).to(full)  # [n, V]
            if bias is not None:
                logits += bias
            wanted = target[part].unsqueeze(1)  # [n, 1]
            right = logits.gather(1, wanted)  # [n, 1]
            if smoothing:
                total -= smoothing / vocab * logits.sum()
            top = logits.amax(1, keepdim=True)  # [n, 1]
            grown = logits.sub_(top).exp_()  # [n, V], the distribution times `norm`
            norm = grown.sum(1, keepdim=True)  # [n, 1]
            total += (top + norm.log()).sum() - (1 - smoothing) * right.sum()
            if not wants:
                continue
            grad = grown.div_(norm)  # [n, V], the model's distribution less the target's
            if smoothing:
                grad -= smoothing / vocab
            grad.scatter_add_(1, wanted, torch.full_like(norm, smoothing - 1))
            low = grad.to(dtype)
            torch.mm(low, weight_low, out=grad_hidden[part])
            grad_weight += low.mT @ hidden_low[part]
            if grad_bias is not None:
                grad_bias += grad.sum(0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.hidden_dtype = hidden.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (factor,) = grads
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        return (
            grad_hidden.to(ctx.hidden_dtype) * factor.to(ctx.hidden_dtype),
            grad_weight * factor,
            None if grad_bias is None else grad_bias * factor,
            None,
            None,
            None,
        )


def _autocast(x: Tensor) -> bool:
    return torch.is_autocast_enabled(x.device.type)


def label_smoothed_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, *, smoothing: float
) -> Tensor:
    """Cross-entropy of the projected states against a target mixed with the uniform distribution.

    Szegedy et al. 2016, sec. 7, q'(k) = (1 - e) q(k) + e / V. https://arxiv.org/abs/1512.00567
    Projection and loss go through in chunks, so that logits [N, V] never exist as a whole.

    Args:
        hidden: [N, D] decoder states of the N scored positions, any float type; sums in float32.
        weight: [V, D] output embedding.
        bias: [V], or None.
        target: [N] ids.
        smoothing: e, 0 <= e < 1.

    Returns:
        Scalar, nats summed over the N tokens (the caller divides by their number over all devices).

    Raises:
        ValueError: smoothing is outside [0, 1).
    """
    if not 0.0 <= smoothing < 1.0:
        raise ValueError(f"label smoothing {smoothing} is outside [0, 1)")
    loss: Tensor = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, target, smoothing, torch.is_grad_enabled()
    )
    return loss
