"""Learned absolute position embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from mtkit.errors import DataError
from mtkit.layers.heads import Heads
from mtkit.layers.positions.base import Position, Positions, on_embeddings
from mtkit.layers.projections import embedding


def reach(max_length: int, stretch: float) -> int:
    """How many positions a table serves."""
    return int((max_length - 1) * stretch) + 1


class Learned(Position):
    """A learned vector for each of the first `max_length` positions, added to the embeddings.

    Gehring et al. 2017, sec. 3.1; Vaswani et al. 2017, table 3 row E. A position beyond the table is an error.
    With `stretch` s, position p stands at row p/s, between two rows by linear interpolation, so that the table reaches
    s times as far (Chen et al. 2023, eq. 4, for a table); a function of p alone, so that steps equal the whole.
    """

    def __init__(self, d_model: int, max_length: int, stretch: float = 1.0) -> None:
        super().__init__()
        self.table = embedding(max_length, d_model)
        self.stretch = stretch
        self.reach = reach(max_length, stretch)

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """x [B, T, D] plus the vectors of pos [B, T].

        Raises:
            DataError: a position is beyond the table.
        """
        if pos.numel() and int(pos.max()) >= self.reach:
            raise DataError(
                f"a sentence of {int(pos.max()) + 1} tokens is longer than the {self.reach} learned positions; raise "
                "max_length or stretch of the learned positions, or use sinusoidal ones"
            )
        if self.stretch == 1:
            return x + self.table(pos).to(x.dtype)  # type: ignore[no-any-return]
        row = pos / self.stretch  # [B, T]
        below = row.long()
        above = (below + 1).clamp(max=self.table.num_embeddings - 1)
        mixed = torch.lerp(self.table(below), self.table(above), (row - below).unsqueeze(-1).to(self.table.weight))
        return x + mixed.to(x.dtype)


@dataclass(frozen=True, kw_only=True)
class LearnedConfig:
    """Learned absolute positions (see Learned)."""

    kind: Literal["learned"] = "learned"
    max_length: Annotated[int, Field(gt=0)] = 1024  # longest sentence, in pieces with the end of sentence
    stretch: Annotated[float, Field(ge=1)] = 1.0  # above 1: interpolate, so that input this much longer has positions

    @property
    def reach(self) -> int:
        """The longest sentence that has positions, in pieces with the end of sentence."""
        return reach(self.max_length, self.stretch)

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> Positions:
        """A table for embeddings of width d_model."""
        return on_embeddings(Learned(d_model, self.max_length, self.stretch), layers)
