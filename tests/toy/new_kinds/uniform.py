"""Attention in which every visible key has the same weight."""

from __future__ import annotations

import torch
from torch import Tensor

from mtkit.layers.attention import AttentionKernel
from mtkit.layers.cache import KVCache
from mtkit.layers.softmax import causal


class UniformAttention(AttentionKernel[KVCache]):
    """The mean of the visible values, whatever the queries."""

    def forward(self, q: Tensor, new: KVCache, past: KVCache | None) -> tuple[Tensor, KVCache]:
        """See AttentionKernel."""
        cache = new if past is None else past.append(new)
        visible = cache.visible(causal, new.pos)  # [B, 1, T, S]
        weights = torch.ones_like(cache.scores(q))  # [B, H, T, S]
        if visible is not None:
            weights = weights * visible
        return cache.weighted_sum(weights / weights.sum(-1, keepdim=True).clamp(min=1)), cache
