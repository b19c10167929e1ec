"""Window attention with some tokens that see everything and are seen by all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from mtkit.layers.attention.global_tokens import Landmarks, Places
from mtkit.layers.attention.multi_head import QueryKeyNorm, SelfAttention, SelfAttentionParts
from mtkit.layers.attention.sliding_window import BlockAttention, Sight
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.state import Rows
from mtkit.layers.heads import Heads, join_heads, split_heads
from mtkit.layers.positions.base import Position
from mtkit.layers.projections import linear


class LongformerAttention(SelfAttention):
    """Sliding window, landmarks that all see, and landmarks' own attention to everything with weights of its own.

    Beltagy, Peters & Cohan 2020, sec. 3.1, "global attention" and "linear projections for global attention".
    https://arxiv.org/abs/2004.05150 . An encoder's; O(n·(w + landmarks)).
    """

    def __init__(
        self,
        d_model: int,
        heads: Heads,
        *,
        position: Position,
        sight: Sight,
        dropout: float,
        norm: QueryKeyNorm = "none",
    ) -> None:
        kernel = BlockAttention(position=position, sight=sight, dropout=dropout)
        super().__init__(d_model, heads, position=position, kernel=kernel, norm=norm)
        self.landmarks = sight.landmarks
        self.look, self.weigh = kernel.look, kernel.weigh
        self.global_query = linear(d_model, heads.num_heads * heads.head_dim)
        self.global_key_value = linear(d_model, 2 * heads.num_kv_heads * heads.head_dim)
        with torch.no_grad():
            self.global_query.weight.mul_(position.initial_query_gain(heads.head_dim))

    def value_weights(self) -> list[Tensor]:
        """See Branch."""
        return [*super().value_weights(), self.global_key_value.weight.chunk(2)[1]]

    def forward(
        self,
        x: Tensor,
        pos: Tensor,
        *,
        real: Tensor | None = None,
        past: Rows | None = None,
        ends: Tensor | None = None,
    ) -> tuple[Tensor, Rows]:
        """See SelfAttention; tokens that end a sentence, `ends` [B, T], are landmarks if the rule says so.

        Raises:
            ValueError: there is a past; landmarks of an encoder see what comes later.
        """
        if past is not None:
            raise ValueError("Longformer's global tokens see what comes later and cannot be decoded step by step")
        q, new = self.project(x, pos, real)
        landmark = self.landmarks.find(pos, real, ends)  # [B, T]
        y = self.look(q, new, landmark)  # [B, H, T, K]
        places = Places.of(landmark)
        seeing = self._global(x, new, places)  # [B, H, L, K]
        chosen = places.real[:, None, :, None]
        seeing = torch.where(chosen, seeing, places.gather(y, 2)).to(y.dtype)
        index = places.index[:, None, :, None].expand_as(seeing)
        return self.out(join_heads(y.scatter(2, index, seeing))), new

    def _global(self, x: Tensor, new: KeyValues, places: Places) -> Tensor:
        """What the tokens at the L places see of everything, [B, H, L, K]."""
        pos = places.gather(new.pos, 1)  # [B, L]
        q = self.query_norm(split_heads(self.global_query(places.gather(x, 1)), self.heads.num_heads))  # [B, H, L, K]
        k, v = split_heads(self.global_key_value(x), 2 * self.heads.num_kv_heads).chunk(2, dim=1)  # [B, G, T, K]
        keys = KeyValues.of(self.position.rotate(self.key_norm(k), new.pos), v, new.pos, new.real)
        visible = None if new.real is None else new.real[:, None, None, :]
        y: Tensor = self.weigh(self.position.rotate(q, pos), pos, keys, visible)[0]
        return y


@dataclass(frozen=True, kw_only=True)
class LongformerConfig:
    """A sliding window and global tokens chosen by rule; an encoder's (see LongformerAttention)."""

    kind: Literal["longformer"] = "longformer"
    width: Annotated[int, Field(gt=0)] = 64  # positions to each side
    first: bool = True  # the first piece of a line is global
    last: bool = True  # so is its end-of-sentence piece
    every: Annotated[int, Field(gt=1)] | None = None  # and the last of each so many positions; n/every more to see
    sentence_ends: bool = False  # and each piece that ends with a mark such as `.`, where lines hold many sentences

    @property
    def landmarks(self) -> Landmarks:
        """The rule."""
        return Landmarks(first=self.first, last=self.last, every=self.every, sentence_ends=self.sentence_ends)

    def __post_init__(self) -> None:
        if not self.landmarks.exist:
            raise ValueError(
                "first: no token is global; set first, last or sentence_ends to true, every to a number, or use window"
            )

    def build(self, parts: SelfAttentionParts) -> SelfAttention:
        """The layer."""
        return LongformerAttention(
            parts.d_model,
            parts.heads,
            position=parts.position,
            sight=Sight(parts.window(self.width), self.landmarks),
            dropout=parts.dropout,
            norm=parts.norm,
        )
