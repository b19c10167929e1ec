"""Naive position encodings, for comparison: the index, the index divided by the length, and binary codes."""

from __future__ import annotations

import torch
from torch import Tensor

from mtkit.layers.positions.base import Position

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
