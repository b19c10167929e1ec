"""Multi-head attention as its parts: projections to heads, positions, and a kernel that weighs values."""

from __future__ import annotations

import torch
from torch import Tensor

from mtkit.layers.attention.kernel import SelfKernel
from mtkit.layers.attention.multi_head import QueryKeyNorm, query_key_norm
from mtkit.layers.attention.softmax import SoftmaxAttention
from mtkit.layers.branch import Branch
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.shared_prefix import KeyTree
from mtkit.layers.cache.state import Rows
from mtkit.layers.heads import Heads, join_heads, split_heads
from mtkit.layers.positions.base import Position
from mtkit.layers.projections import linear


class SelfAttention(Branch):
    """Attention of a sequence to itself; queries, keys and values come out of one product.

    Vaswani et al. 2017, sec. 3.2.2; multi-query (Shazeer 2019) and grouped-query (Ainslie et al. 2023) attention are
    the cases G = 1 and 1 < G < H.
    """

    def __init__(
        self, d_model: int, heads: Heads, *, position: Position, kernel: SelfKernel, norm: QueryKeyNorm = "none"
    ) -> None:
        super().__init__()
        self.heads = heads
        self.position = position
        self.kernel = kernel
        self.query_key_value = linear(d_model, (heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim)
        self.out = linear(heads.num_heads * heads.head_dim, d_model)
        self.query_norm, self.key_norm = query_key_norm(norm, heads.head_dim), query_key_norm(norm, heads.head_dim)
        self.has_norms = norm != "none"
        with torch.no_grad():
            gain = position.initial_query_gain(heads.head_dim)
            self.query_key_value.weight[: heads.num_heads * heads.head_dim].mul_(gain)

    def value_weights(self) -> list[Tensor]:
        """See Branch."""
        return [self.query_key_value.weight[-self.heads.num_kv_heads * self.heads.head_dim :], self.out.weight]

    def project(self, x: Tensor, pos: Tensor, real: Tensor | None) -> tuple[Tensor, KeyValues]:
        """Queries [B, H, T, K] of x [B, T, D], and its keys and values, normalised and turned by pos [B, T]."""
        heads = self.heads
        projected = split_heads(self.query_key_value(x), heads.num_heads + 2 * heads.num_kv_heads)
        queries_keys, v = projected[:, : -heads.num_kv_heads], projected[:, -heads.num_kv_heads :]  # [B, ., T, K]
        if self.has_norms:
            q, k = queries_keys[:, : heads.num_heads], queries_keys[:, heads.num_heads :]
            queries_keys = torch.cat([self.query_norm(q), self.key_norm(k)], dim=1)
        turned = self.position.rotate(queries_keys, pos)
        return turned[:, : heads.num_heads], KeyValues.of(turned[:, heads.num_heads :], v, pos, real)

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: Rows | None = None
    ) -> tuple[Tensor, Rows]:
        """Let T tokens attend to the `past` and to themselves.

        Args:
            x: [B, T, D].
            pos: [B, T].
            real: [B, T], or None if all are; without `past` only.
            past: what is there already; all new tokens are then real.

        Returns:
            [B, T, D], and what to remember of everything so far.
        """
        shape = x.shape
        if isinstance(past, KeyTree):
            x, pos = past.together(x), past.together(pos)
        q, new = self.project(x, pos, real)
        y, state = self.kernel.attend(q, new, past)  # [B, H, T, K]
        return self.out(join_heads(y)).view(shape), state


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
