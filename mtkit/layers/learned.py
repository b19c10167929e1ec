"""Learned absolute position embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from mtkit.errors import DataError
from mtkit.layers.linear import embedding
from mtkit.layers.position import Position


class Learned(Position):
    """A learned vector for each of the first `max_length` positions, added to the embeddings.

    Gehring et al. 2017, sec. 3.1; Vaswani et al. 2017, table 3 row E. A position beyond the table is an error.
    """

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.table = embedding(max_length, d_model)

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """x [B, T, D] plus the vectors of pos [B, T].

        Raises:
            DataError: a position is beyond the table.
        """
        if pos.numel() and int(pos.max()) >= self.table.num_embeddings:
            raise DataError(
                f"a sentence of {int(pos.max()) + 1} tokens is longer than the {self.table.num_embeddings} learned "
                "positions; raise max_length of the learned positions or use sinusoidal ones"
            )
        return x + self.table(pos).to(x.dtype)


@dataclass(frozen=True, kw_only=True)
class LearnedConfig:
    """Learned absolute positions (see Learned)."""

    kind: Literal["learned"] = "learned"
    max_length: Annotated[int, Field(gt=0)] = 1024  # longest sentence, in pieces with the end of sentence

    def build(self, d_model: int, num_heads: int, head_dim: int) -> Learned:
        """The scheme for embeddings of width d_model."""
        return Learned(d_model, self.max_length)
