"""Scaled dot-product attention with a softmax over all visible keys; attention masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.layers import native_kernels
from mtkit.layers.cache import MIN_KEYS, KVCache
from mtkit.layers.dropout import Dropout
from mtkit.layers.positions import Position, relative_distance


def full(q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
    """Every key is visible."""
    return None


def causal(q_pos: Tensor, k_pos: Tensor) -> Tensor:
    """A query attends to its own and to earlier positions."""
    return k_pos.unsqueeze(-2) <= q_pos.unsqueeze(-1)  # [B, T, S]


@dataclass(frozen=True)
class Window:
    """Sliding window: a query attends to its own position, `before` earlier and `after` later positions."""

    before: int
    after: int

    def __call__(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, T, S]."""
        distance = relative_distance(q_pos, k_pos)
        return (distance <= self.before) & (distance >= -self.after)


def apply_mask(scores: Tensor, visible: Tensor | None) -> Tensor:
    """Hide keys from the softmax.

    Args:
        scores: [B, H, T, S].
        visible: [B, 1, 1 or T, S]: bool, False where a score becomes the dtype's minimum; or a tensor that is added to
            the scores; or None to leave them unchanged.
    """
    if visible is None:
        return scores
    if visible.dtype == torch.bool:
        return torch.where(visible, scores, torch.finfo(scores.dtype).min)
    return scores + visible


def additive_mask(real: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Mask to be added to scores of `dtype`, which hides the keys [B, S] that are not `real`.

    Addition is cheaper than selection, but hides keys only from queries that see another one. Where a row has no real
    key the result is therefore `real` itself. It is None where all keys are real.
    """
    if bool(real.all()):
        return None
    if not bool(real.any(1).all()):
        return real
    return torch.zeros(real.shape, dtype=dtype, device=real.device).masked_fill_(~real, torch.finfo(dtype).min)


def softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension, in the type of the scores; on a CPU computed in float32 at least."""
    if scores.device.type not in ("cpu", "meta") or torch.compiler.is_compiling():
        return scores.softmax(-1)  # an exported graph has no sizes to compare
    if not scores.requires_grad:
        return _softmax(scores)
    weights: Tensor = _Softmax.apply(scores)  # type: ignore[no-untyped-call]
    return weights


def _softmax(scores: Tensor) -> Tensor:
    """Softmax of rows that are padded to MIN_KEYS scores; the result may be a view of wider rows."""
    width, wide = scores.size(-1), torch.promote_types(scores.dtype, torch.float32)
    if width < MIN_KEYS:
        scores = F.pad(scores, (0, MIN_KEYS - width), value=float("-inf"))
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
        if dtype == wide and weights.size(-1) >= MIN_KEYS:
            return torch._softmax_backward_data(grad, weights, -1, dtype)
        grad, weights = grad.to(wide), weights.to(wide)
        product: Tensor = grad * weights
        return torch.sub(grad, product.sum(-1, keepdim=True), out=product).mul_(weights).to(dtype)


class DotProductAttention(nn.Module):
    """softmax(scale · Q K^T + bias) V, with every hook of the position encoding.

    Vaswani et al. 2017, eq. 1; grouped key/value heads as in Ainslie et al. 2023. Two batched products and a softmax:
    on a CPU the backward pass of torch's fused kernel takes a third of an update on short sentences.
    """

    def __init__(self, position: Position, dropout: float) -> None:
        super().__init__()
        self.position = position
        self.dropout = Dropout(dropout)
        hooks = ("bias", "value_bias")
        self.is_plain = all(getattr(type(position), hook) is getattr(Position, hook) for hook in hooks)

    def forward(self, q: Tensor, q_pos: Tensor, kv: KVCache, visible: Tensor | None) -> tuple[Tensor, Tensor]:
        """Attend from queries to keys.

        Args:
            q: [B, H, T, K].
            q_pos: [B, T].
            kv: keys and values [B, G, S, K].
            visible: attention mask [B, 1, 1 or T, S], see `apply_mask`.

        Returns:
            Weighted values [B, H, T, K], zeros where no key is visible; and the weights [B, H, T, S].
        """
        if self.is_plain and native_kernels.can_attend(q, kv.k, kv.v, visible):  # the same in one pass
            dropout, scale = self.dropout, self.position.scale(q.size(-1))
            random = dropout.random_bytes(torch.Size((*q.shape[:3], kv.k.size(2))))
            scales = native_kernels.AttentionScales(scale, dropout.drop_levels, dropout.scale)
            return native_kernels.attend(q, kv.k, kv.v, visible, random, scales)
        weights = softmax(apply_mask(self.scores(q, q_pos, kv), visible))  # [B, H, T, S]
        if visible is not None and visible.dtype == torch.bool:  # an additive mask promises that a query sees a key
            weights = weights * visible.any(-1, keepdim=True).to(weights.dtype)
        return self.weighted_sum(self.dropout(weights), q_pos, kv), weights

    def scores(self, q: Tensor, q_pos: Tensor, kv: KVCache) -> Tensor:
        """scale · Q K^T + bias, [B, H, T, S]."""
        scores = kv.scores(q * self.position.scale(q.size(-1)))  # [B, H, T, S]
        bias = self.position.bias(q, kv.k, q_pos, kv.pos)  # ALiBi, T5, Shaw, ...
        return scores if bias is None else scores + bias

    def weighted_sum(self, weights: Tensor, q_pos: Tensor, kv: KVCache) -> Tensor:
        """Weights [B, H, T, S] times values, [B, H, T, K]."""
        y = kv.weighted_sum(weights)  # [B, H, T, K]
        bias = self.position.value_bias(weights, q_pos, kv.pos)  # Shaw
        return y if bias is None else y + bias
