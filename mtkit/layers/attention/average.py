"""Average attention: a decoder layer that attends evenly to everything before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from mtkit.layers.attention.multi_head import SelfAttentionParts
from mtkit.layers.branch import Branch
from mtkit.layers.cache.state import Rows
from mtkit.layers.feed_forward.dense import FeedForward
from mtkit.layers.projections import Width, linear


@dataclass(frozen=True)
class AverageState(Rows):
    """The sum of the tokens so far [rows, D], float32, and their number [rows]."""

    total: Tensor
    count: Tensor


class AverageAttention(Branch):
    """y_t = i_t * x_t + f_t * g_t with g_t = FFN(mean of x_1 .. x_t) and gates [i; f] = sigmoid(W [x_t; g_t]).

    Zhang et al. 2018, eq. 1 to 3, in the place of a decoder's self-attention. https://arxiv.org/abs/1805.00631
    A step costs the same however long the output is. The average does not know the order of the tokens: that is in
    their embeddings. Sums are in float32 at least.

    Args:
        d_model: D.
        d_ff: width of the feed-forward layer on the average, or None to leave it out.
    """

    def __init__(self, d_model: int, d_ff: int | None) -> None:
        super().__init__()
        self.feed_forward = (
            nn.Identity() if d_ff is None else FeedForward(d_model, d_ff, activation="relu", dropout=0.0)
        )
        self.gates = linear(2 * d_model, 2 * d_model)

    def value_weights(self) -> list[Tensor]:
        """See Branch; those of the feed-forward layer are named there."""
        return []

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: Rows | None = None
    ) -> tuple[Tensor, Rows]:
        """T tokens x [B, T, D] at pos [B, T], of which `real` [B, T] is there, after the `past`.

        Returns:
            [B, T, D], and the state after the last token.

        Raises:
            ValueError: another kind of layer made the past.
        """
        if past is not None and not isinstance(past, AverageState):
            raise ValueError(f"a state of another kind of layer: {type(past).__name__}")
        there = torch.ones_like(pos, dtype=torch.bool) if real is None else real  # [B, T]
        full = x.to(torch.promote_types(x.dtype, torch.float32)) * there.unsqueeze(-1)
        total, count = full.cumsum(1), there.cumsum(1)  # [B, T, D], [B, T]
        if past is not None:
            total, count = total + past.total.unsqueeze(1), count + past.count.unsqueeze(1)
        g = self.feed_forward((total / count.clamp(min=1).unsqueeze(-1)).to(x.dtype))  # [B, T, D]
        own, average = self.gates(torch.cat([x, g.to(x.dtype)], -1)).sigmoid().chunk(2, dim=-1)
        return own * x + average * g, AverageState(total[:, -1], count[:, -1])


@dataclass(frozen=True, kw_only=True)
class AverageAttentionConfig:
    """The average of all tokens so far; a decoder's (see AverageAttention)."""

    kind: Literal["average"] = "average"
    d_ff: Width | None = None  # of a layer on the average, as in the paper; null: none

    def build(self, parts: SelfAttentionParts) -> AverageAttention:
        """The layer."""
        return AverageAttention(parts.d_model, self.d_ff)
