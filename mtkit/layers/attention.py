"""Multi-head attention as its parts: projections to heads, positions, and a kernel that weighs values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from mtkit.layers.branch import Branch
from mtkit.layers.key_values import KeyValues
from mtkit.layers.linear import linear
from mtkit.layers.position import Position

Kernel = Callable[[Tensor, Tensor, KeyValues], tuple[Tensor, Tensor | None]]  # (q, q_pos, keys) -> (out, weights)


@dataclass(frozen=True)
class Heads:
    """How a width of D is cut: H query heads and G key/value heads of width K."""

    num_heads: int
    num_kv_heads: int
    head_dim: int


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """[B, T, H·K] -> [B, H, T, K]."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """[B, H, T, K] -> [B, T, H·K]."""
    return x.transpose(1, 2).flatten(-2)


class SelfAttention(Branch):
    """Attention of a sequence to itself; queries, keys and values come out of one product.

    Vaswani et al. 2017, sec. 3.2.2; multi-query (Shazeer 2019) and grouped-query (Ainslie et al. 2023) attention are
    the cases G = 1 and 1 < G < H.
    """

    def __init__(self, d_model: int, heads: Heads, *, position: Position, kernel: nn.Module) -> None:
        super().__init__()
        self.heads = heads
        self.position = position
        self.kernel = kernel
        self.query_key_value = linear(d_model, (heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim)
        self.out = linear(heads.num_heads * heads.head_dim, d_model)

    def value_weights(self) -> list[Tensor]:
        """See Branch."""
        return [self.query_key_value.weight[-self.heads.num_kv_heads * self.heads.head_dim :], self.out.weight]

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: KeyValues | None = None
    ) -> tuple[Tensor, KeyValues]:
        """Let T tokens attend to the `past` and to themselves.

        Args:
            x: [B, T, D].
            pos: [B, T].
            real: [B, T], or None if all are; without `past` only.
            past: what is there already; all new tokens are then real.

        Returns:
            [B, T, D], and the keys and values of everything so far.
        """
        heads = self.heads
        projected = split_heads(self.query_key_value(x), heads.num_heads + 2 * heads.num_kv_heads)
        q, k, v = projected.split([heads.num_heads, heads.num_kv_heads, heads.num_kv_heads], dim=1)  # [B, ., T, K]
        q, k = self.position.rotate(q, pos), self.position.rotate(k, pos)
        keys = KeyValues.of(k, v, pos, real) if past is None else past.append(k, v, pos)
        y, _ = self.kernel(q, pos, keys)  # [B, H, T, K]
        return self.out(join_heads(y)), keys


class CrossAttention(Branch):
    """Attention of a sequence to another, whose keys and values are projected once; positions play no part."""

    def __init__(self, d_model: int, heads: Heads, *, kernel: nn.Module) -> None:
        super().__init__()
        self.heads = heads
        self.kernel = kernel
        self.query = linear(d_model, heads.num_heads * heads.head_dim)
        self.key_value = linear(d_model, 2 * heads.num_kv_heads * heads.head_dim)
        self.out = linear(heads.num_heads * heads.head_dim, d_model)

    def value_weights(self) -> list[Tensor]:
        """See Branch."""
        return [self.key_value.weight.chunk(2)[1], self.out.weight]

    def project(self, memory: Tensor, pos: Tensor, real: Tensor) -> KeyValues:
        """Keys and values of memory [B, S, D] at pos [B, S], of which `real` [B, S] is there."""
        k, v = split_heads(self.key_value(memory), 2 * self.heads.num_kv_heads).chunk(2, dim=1)  # [B, G, S, K]
        return KeyValues.of(k, v, pos, real)

    def forward(self, x: Tensor, pos: Tensor, keys: KeyValues) -> tuple[Tensor, Tensor]:
        """Attend from x [B, T, D] to the keys.

        Returns:
            [B, T, D], and the weights [B, H, T, S].
        """
        q = split_heads(self.query(x), self.heads.num_heads)  # [B, H, T, K]
        y, weights = self.kernel(q, pos, keys)
        return self.out(join_heads(y)), weights
