"""TODO."""

from __future__ import annotations

from torch import Tensor

from mtkit.layers.attention.multi_head import QueryKeyNorm, query_key_norm
from mtkit.layers.attention.softmax import SoftmaxAttention
from mtkit.layers.branch import Branch
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.heads import Heads, join_heads, split_heads
from mtkit.layers.projections import linear


class CrossAttention(Branch):
    """Attention of a sequence to another, whose keys and values are projected once; positions play no part."""

    shares_memory = False  # with the other layers

    def __init__(self, d_model: int, heads: Heads, *, kernel: SoftmaxAttention, norm: QueryKeyNorm = "none") -> None:
        super().__init__()
        self.heads = heads
        self.kernel = kernel
        self.query = linear(d_model, heads.num_heads * heads.head_dim)
        self.key_value = linear(d_model, 2 * heads.num_kv_heads * heads.head_dim)
        self.out = linear(heads.num_heads * heads.head_dim, d_model)
        self.query_norm, self.key_norm = query_key_norm(norm, heads.head_dim), query_key_norm(norm, heads.head_dim)

    def value_weights(self) -> list[Tensor]:
        """See Branch."""
        return [self.key_value.weight.chunk(2)[1], self.out.weight]

    def project(self, memory: Tensor, pos: Tensor, real: Tensor | None) -> KeyValues:
        """Keys and values of memory [B, S, D] at pos [B, S], of which `real` [B, S] is there (None: all)."""
        k, v = split_heads(self.key_value(memory), 2 * self.heads.num_kv_heads).chunk(2, dim=1)  # [B, G, S, K]
        return KeyValues.of(self.key_norm(k), v, pos, real)

    def forward(self, x: Tensor, pos: Tensor, keys: KeyValues) -> tuple[Tensor, Tensor]:
        """Attend from x [B, T, D] to the keys.

        Returns:
            [B, T, D], and the weights [B, H, T, S].
        """
        q = self.query_norm(split_heads(self.query(x), self.heads.num_heads))  # [B, H, T, K]
        y, weights = self.kernel(q, pos, keys)
        return self.out(join_heads(y)), weights
