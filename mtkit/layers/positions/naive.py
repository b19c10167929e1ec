"""Naive position encodings, for comparison: the index, the index divided by the length, and binary codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from mtkit.layers.heads import Heads
from mtkit.layers.positions.base import Position, PositionConfigBase, StackPositions, embedding_only

MAX_BITS = 62  # of an int64


class Index(Position):
    """The position itself is added to every number of the embedding.

    It fails because the sum grows with the position, until nothing of the token is left after the first norm.
    """

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """Add pos [B, T] to x [B, T, D]."""
        return x + pos.unsqueeze(-1).to(x.dtype)


class RelativeIndex(Position):
    """Position divided by the number of tokens of the sentence, added to every number of the embedding.

    It is bounded by 1, but the same distance has another size in every sentence: neighbours differ by 1/length.
    """

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """Add pos [B, T] over the sentence's length to x [B, T, D]; real [B, T] is False at padding."""
        counted = pos if real is None else pos.masked_fill(~real, -1)
        length = (counted.amax(1, keepdim=True) + 1).clamp(min=1) if pos.size(1) else 1  # [B, 1]
        return x + (pos / length).unsqueeze(-1).to(x.dtype)


class Binary(Position):
    """Bit i of the position is added to number i of the embedding, the lowest bit first; further numbers get 0.

    Every position has a code of its own, but neighbours such as 7 and 8 may differ in all bits. Sinusoids are its
    continuous form.
    """

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """Add the code of pos [B, T] to x [B, T, D]."""
        bits = torch.arange(x.size(-1), device=pos.device)  # [D]
        code = (pos.unsqueeze(-1) >> bits.clamp(max=MAX_BITS)) & 1  # [B, T, D]
        return x + (code * (bits < MAX_BITS)).to(x.dtype)


@dataclass(frozen=True, kw_only=True)
class IndexConfig(PositionConfigBase):
    """The position as a number; fails on long sentences (see Index)."""

    kind: Literal["index"] = "index"

    is_recommended: ClassVar[bool] = False

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build the encoding; it has no parameters."""
        return embedding_only(Index(), layers)


@dataclass(frozen=True, kw_only=True)
class RelativeIndexConfig(PositionConfigBase):
    """The position divided by the sentence's length, for encoders (see RelativeIndex)."""

    kind: Literal["index_over_length"] = "index_over_length"

    is_recommended: ClassVar[bool] = False
    needs_whole_sentence: ClassVar[bool] = True

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build the encoding; it has no parameters."""
        return embedding_only(RelativeIndex(), layers)


@dataclass(frozen=True, kw_only=True)
class BinaryConfig(PositionConfigBase):
    """The bits of the position (see Binary)."""

    kind: Literal["binary"] = "binary"

    is_recommended: ClassVar[bool] = False

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build the encoding; it has no parameters."""
        return embedding_only(Binary(), layers)
