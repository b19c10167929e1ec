"""Scaled dot-product attention with a softmax over all visible keys."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mtkit.layers.attention.kernel import AttentionKernel
from mtkit.layers.attention.masks import Pattern, apply_mask, causal, full
from mtkit.layers.cache.kv_cache import AttentionCache, KVCache
from mtkit.layers.cache.shared_prefix import SharedPrefixCache
from mtkit.layers.dropout import Dropout
from mtkit.layers.fast_softmax import softmax
from mtkit.layers.heads import Heads
from mtkit.layers.positions.base import Position


class DotProductAttention(nn.Module):
    """softmax(scale · Q K^T + bias) V, with every hook of the position encoding.

    Vaswani et al. 2017, eq. 1; grouped key/value heads as in Ainslie et al. 2023. Two batched products and a softmax:
    on a CPU the backward pass of torch's fused kernel takes a third of an update on short sentences.
    """

    def __init__(self, position: Position, dropout: float) -> None:
        super().__init__()
        self.position = position
        self.dropout = Dropout(dropout)

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
        weights = masked_softmax(self.scores(q, q_pos, kv), visible)  # [B, H, T, S]
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


def masked_softmax(scores: Tensor, visible: Tensor | None) -> Tensor:
    """Attention weights over the visible keys, [B, H, T, S]; zeros for a query that sees none.

    Args:
        scores: [B, H, T, S].
        visible: see `apply_mask`.
    """
    weights = softmax(apply_mask(scores, visible))
    if visible is None or visible.dtype != torch.bool:
        return weights  # an additive mask promises that every query sees a key
    return weights * visible.any(-1, keepdim=True).to(weights.dtype)


class SoftmaxAttention(AttentionKernel[AttentionCache]):
    """Self-attention of every query to every key that the pattern shows (see DotProductAttention)."""

    def __init__(self, *, position: Position, pattern: Pattern, dropout: float) -> None:
        super().__init__()
        self.dot_product = DotProductAttention(position, dropout)
        self.pattern = pattern

    def forward(self, q: Tensor, new: KVCache, past: AttentionCache | None) -> tuple[Tensor, AttentionCache]:
        """See AttentionKernel; the state holds all keys and values."""
        cache = new if past is None else past.append(new)
        # One new token per hypothesis comes after all others, so that a causal mask would hide nothing.
        is_last = past is not None and q.size(2) == cache.beam_size and self.pattern is causal
        visible = cache.visible(full if is_last else self.pattern, new.pos)  # [B, 1, 1 or T, S]
        y, _ = self.dot_product(q, new.pos, cache.kv, visible)
        return y, cache

    def initial_state(self, num_sentences: int, heads: Heads, device: torch.device) -> AttentionCache:
        """An empty cache in which the hypotheses of a sentence will share their prefixes."""
        return SharedPrefixCache(KVCache.empty(num_sentences, heads.num_kv_heads, heads.head_dim, device))
