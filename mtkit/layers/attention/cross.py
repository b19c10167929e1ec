"""Cross-attention from decoder to encoder."""

from __future__ import annotations

from torch import Tensor

from mtkit.layers.attention.multi_head import QK_NORMS, AttentionParts, MultiHead
from mtkit.layers.attention.softmax import DotProductAttention, full
from mtkit.layers.cache.kv_cache import KVCache
from mtkit.layers.heads import split_heads
from mtkit.layers.projections import linear


class CrossAttention(MultiHead):
    """Attention of one sequence to another, whose keys and values are projected once; without positions.

    Vaswani et al. 2017, sec. 3.2.3. Translation may compute the same in less time (mtkit/inference), as long as the
    results agree: a change of this class acts in training, validation, greedy and beam search.
    """

    def __init__(self, parts: AttentionParts) -> None:
        super().__init__()
        heads = self.heads = parts.heads
        self.dot_product = DotProductAttention(parts.position, parts.dropout)
        self.query = linear(parts.d_model, heads.num_heads * heads.head_dim)
        self.key_value = linear(parts.d_model, heads.num_kv_heads * heads.head_dim + heads.value_width)
        self.out = linear(heads.num_heads * heads.value_dim, parts.d_model)
        self.query_norm, self.key_norm = (QK_NORMS[parts.norm].build(heads.head_dim) for _ in range(2))

    def value_path_weights(self) -> list[Tensor]:
        """See Sublayer."""
        return [self.key_value.weight[-self.heads.value_width :], self.out.weight]

    @property
    def key_value_widths(self) -> list[int]:
        """Width of the keys and of the values of all groups."""
        return [self.heads.num_kv_heads * self.heads.head_dim, self.heads.value_width]

    def project(self, memory: Tensor, pos: Tensor, real: Tensor | None) -> KVCache:
        """Keys and values of memory [B, S, D] at pos [B, S]; `real` [B, S] is False for padding, None without it."""
        projected, groups = self.key_value(memory), self.heads.num_kv_heads
        k, v = (split_heads(x, groups) for x in projected.split(self.key_value_widths, -1))  # [B, G, S, K]
        return KVCache.of(self.key_norm(k), v, pos, real)

    def forward(self, x: Tensor, pos: Tensor, memory: KVCache) -> tuple[Tensor, Tensor]:
        """Attend from x [B, T, D] at pos [B, T] to the projected memory.

        Returns:
            [B, T, D], and the weights [B, H, T, S].
        """
        q = self.query_norm(split_heads(self.query(x), self.heads.num_heads))  # [B, H, T, K]
        y, weights = self.dot_product(q, pos, memory, memory.visible(full, pos))  # [B, H, T, K]
        return self.join(y), weights
