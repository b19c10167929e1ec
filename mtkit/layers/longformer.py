"""Window attention with some tokens that see everything and are seen by all."""

from __future__ import annotations

import torch
from torch import Tensor

from mtkit.layers.attention import SelfAttention
from mtkit.layers.block_attention import BlockAttention, Sight
from mtkit.layers.heads import Heads, join_heads, split_heads
from mtkit.layers.key_values import KeyValues
from mtkit.layers.landmark import Places
from mtkit.layers.linear import linear
from mtkit.layers.position import Position
from mtkit.layers.query_key_norm import QueryKeyNorm
from mtkit.layers.rows import Rows


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
