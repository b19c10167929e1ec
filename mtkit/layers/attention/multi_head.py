"""Multi-head attention as its parts: projections to heads, positions, and a kernel that weighs values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from mtkit.layers.attention.kernel import SelfKernel
from mtkit.layers.attention.masks import Window
from mtkit.layers.branch import Branch
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.shared_prefix import KeyTree
from mtkit.layers.cache.state import Rows
from mtkit.layers.heads import Heads, join_heads, split_heads
from mtkit.layers.norms.rms_norm import RMSNorm
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


QueryKeyNorm = Literal["none", "layer", "rms"]


# over the K numbers of one head, with a gain shared by the heads; Dehghani et al. 2023, sec. 2.1 (layer norm), after
# Henry et al. 2020. https://arxiv.org/abs/2302.05442
MAKERS: dict[QueryKeyNorm, Callable[[int], nn.Module]] = {
    "none": lambda head_dim: nn.Identity(),
    "layer": nn.LayerNorm,
    "rms": lambda head_dim: RMSNorm(head_dim, epsilon=1e-6),
}


def query_key_norm(kind: QueryKeyNorm, head_dim: int) -> nn.Module:
    """What queries, or keys, [B, H, T, K] go through before positions turn them."""
    return MAKERS[kind](head_dim)


@dataclass(frozen=True, kw_only=True)
class SelfAttentionParts:
    """What every kind of self-attention is made of."""

    d_model: int
    heads: Heads
    position: Position
    causal: bool  # a decoder's
    dropout: float  # of the attention weights
    norm: QueryKeyNorm

    def around(self, kernel: SelfKernel) -> SelfAttention:
        """Projections around a kernel."""
        return SelfAttention(self.d_model, self.heads, position=self.position, kernel=kernel, norm=self.norm)

    def window(self, width: int) -> Window:
        """`width` positions to each side that may be seen."""
        return Window(before=width, after=0 if self.causal else width)
