"""Longformer: sliding-window attention with global tokens that attend to everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mtkit.layers.attention.multi_head import AttentionParts, SelfAttention
from mtkit.layers.attention.sparse.sliding_window import GatheredTokens, SlidingWindowAttention
from mtkit.layers.cache.kv_cache import KVCache
from mtkit.layers.cache.state import BatchedState
from mtkit.layers.heads import split_heads
from mtkit.layers.projections import linear

if TYPE_CHECKING:
    from mtkit.layers.attention.sparse.config import LongformerConfig


class LongformerAttention(SelfAttention):
    """Sliding window, global tokens that all tokens attend to, and attention of the global tokens to all tokens.

    Beltagy, Peters & Cohan 2020, sec. 3.1, "global attention" and "linear projections for global attention": the global
    tokens have projections of their own. https://arxiv.org/abs/2004.05150 . For encoders; O(n · (window + globals)).
    """

    kernel: SlidingWindowAttention

    def __init__(self, config: LongformerConfig, parts: AttentionParts) -> None:
        super().__init__(config, parts)
        heads = parts.heads
        self.global_tokens = self.kernel.mask.global_tokens
        self.attend_all, self.dot_product = self.kernel.attend_all, self.kernel.dot_product
        self.global_query = linear(parts.d_model, heads.num_heads * heads.head_dim)
        self.global_key_value = linear(parts.d_model, heads.num_kv_heads * heads.head_dim + heads.value_width)
        with torch.no_grad():
            self.global_query.weight.mul_(self.position.query_init_gain(heads.head_dim))

    def value_path_weights(self) -> list[Tensor]:
        """See Sublayer."""
        return [*super().value_path_weights(), self.global_key_value.weight[-self.heads.value_width :]]

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: BatchedState | None = None
    ) -> tuple[Tensor, BatchedState]:
        """See TokenMixer.

        Raises:
            ValueError: there is a past; global tokens attend to following tokens.
        """
        if past is not None:
            raise ValueError("Longformer's global tokens attend to following tokens; it cannot decode step by step")
        q, new = self.project(x, pos, real)
        is_global = self.global_tokens.mask(pos, real)  # [B, T]
        y = self.attend_all(q, new, is_global)  # [B, H, T, K]
        tokens = GatheredTokens.of(is_global)
        global_y = self._attend_globally(x, new, tokens)  # [B, H, M, K]
        global_y = torch.where(tokens.real[:, None, :, None], global_y, tokens.gather(y, 2)).to(y.dtype)
        index = tokens.index[:, None, :, None].expand_as(global_y)
        return self.join(y.scatter(2, index, global_y)), new

    def _attend_globally(self, x: Tensor, new: KVCache, tokens: GatheredTokens) -> Tensor:
        """Attention of M global tokens to all tokens, [B, H, M, K]."""
        pos = tokens.gather(new.pos, 1)  # [B, M]
        q = self.query_norm(split_heads(self.global_query(tokens.gather(x, 1)), self.heads.num_heads))  # [B, H, M, K]
        projected, groups = self.global_key_value(x), self.heads.num_kv_heads
        values = self.heads.value_width
        k, v = split_heads(projected[..., :-values], groups), split_heads(projected[..., -values:], groups)
        kv = KVCache.of(self.position.rotate(self.key_norm(k), new.pos), v, new.pos, new.real)
        visible = None if new.real is None else new.real[:, None, None, :]  # [B, 1, 1, T]
        y: Tensor = self.dot_product(self.position.rotate(q, pos), pos, kv, visible)[0]
        return y
