"""TODO."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK = 512  # positions whose logits exist at one time; 256 to 512 measured best on CPU


class _Inputs(NamedTuple):
    """What the loss is of, in the type that products are computed in."""

    hidden: Tensor  # [N, D]
    weight: Tensor  # [V, D]
    bias: Tensor | None  # [V]
    target: Tensor  # [N]
    smoothing: float

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Which positions, and their logits [n, V] in float32 (or float64)."""
        wide = torch.promote_types(self.hidden.dtype, torch.float32)
        for begin in range(0, self.hidden.size(0), CHUNK):
            part = slice(begin, begin + CHUNK)
            logits = (self.hidden[part] @ self.weight.mT).to(wide)  # [n, V]
            yield part, logits if self.bias is None else logits.add_(self.bias)

    def loss(self, part: slice, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The summed loss of a chunk, and the model's distribution [n, V], which takes the place of the logits."""
        right = logits.gather(1, self.target[part].unsqueeze(1))  # [n, 1]
        uniform = logits.sum() * (self.smoothing / logits.size(1)) if self.smoothing else 0.0
        top = logits.amax(1, keepdim=True)  # [n, 1]
        distribution = logits.sub_(top).exp_()  # [n, V], times `norm`
        norm = distribution.sum(1, keepdim=True)  # [n, 1]
        loss = (top + norm.log()).sum() - (1 - self.smoothing) * right.sum() - uniform
        return loss, distribution.div_(norm)

    def gradient(self, part: slice, distribution: Tensor) -> Tensor:
        """d loss / d logits [n, V]: the model's distribution less the target's; takes the place of the former."""
        if self.smoothing:
            distribution -= self.smoothing / distribution.size(1)
        wanted = self.target[part].unsqueeze(1)  # [n, 1]
        return distribution.scatter_add_(1, wanted, distribution.new_full(wanted.shape, self.smoothing - 1))


class _ChunkedLoss(torch.autograd.Function):
    """Projection and loss chunk by chunk; the gradient is computed in the forward pass, while the logits are there."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
    ) -> Tensor:
        inputs = _low(hidden, weight, bias, target, smoothing)
        total = torch.zeros((), dtype=torch.promote_types(inputs.hidden.dtype, torch.float32), device=hidden.device)
        grad_hidden = torch.empty_like(inputs.hidden)  # [N, D]
        grad_weight = torch.zeros_like(weight, dtype=total.dtype)  # [V, D]
        grad_bias = None if bias is None else torch.zeros_like(bias, dtype=total.dtype)  # [V]
        for part, logits in inputs.chunks():
            loss, distribution = inputs.loss(part, logits)
            total += loss
            gradient = inputs.gradient(part, distribution)  # [n, V]
            low = gradient.to(inputs.hidden.dtype)
            torch.mm(low, inputs.weight, out=grad_hidden[part])
            grad_weight += low.mT @ inputs.hidden[part]
            if grad_bias is not None:
                grad_bias += gradient.sum(0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.dtypes = hidden.dtype, weight.dtype, None if bias is None else bias.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (factor,) = grads
        scaled = (
            None if saved is None else saved.mul(factor.to(saved.dtype)).to(dtype)
            for saved, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        )
        return *scaled, None, None


def _low(hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float) -> _Inputs:
    kind = hidden.device.type
    mixed = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    dtype = torch.get_autocast_dtype(kind) if mixed else hidden.dtype
    return _Inputs(hidden.to(dtype), weight.to(dtype), bias, target, smoothing)


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
    if torch.is_grad_enabled():
        loss: Tensor = _ChunkedLoss.apply(hidden, weight, bias, target, smoothing)  # type: ignore[no-untyped-call]
        return loss
    inputs = _low(hidden, weight, bias, target, smoothing)
    losses = [inputs.loss(part, logits)[0] for part, logits in inputs.chunks()]
    return torch.stack(losses).sum() if losses else hidden.new_zeros((), dtype=torch.float32)


def in_chunks(function: Callable[..., Tensor], *rows: Tensor) -> list[Tensor]:
    """Apply a function to CHUNK rows of the tensors at a time; what it computed is computed again for the gradient.

    Args:
        function: of one part of each tensor; it must draw nothing.
        rows: tensors with the same first dimension.
    """
    parts = zip(*(torch.split(each, CHUNK) for each in rows), strict=True)
    if not torch.is_grad_enabled():
        return [function(*part) for part in parts]
    return [checkpoint(function, *part, use_reentrant=False, preserve_rng_state=False) for part in parts]


def log_probs(output: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
    """Log-probabilities [n, V] of the next piece in states [n, D], float32 or better."""
    logits = output(hidden)
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
