"""Learned absolute position embeddings."""

from __future__ import annotations

import torch
from torch import Tensor

from mtkit.errors import DataError
from mtkit.layers.positions.base import Position
from mtkit.layers.projections import embedding


class Learned(Position):
    """Learned vectors for the first `max_length` positions, added to the embeddings.

    Gehring et al. 2017, sec. 3.1; Vaswani et al. 2017, table 3 row E. A position beyond the table is an error.
    With `interpolation_factor` s, position p reads the table at row p/s, interpolated linearly between two rows, so
    that the table covers s times as many positions (Chen et al. 2023, eq. 4, applied to a table). The vector depends on
    p alone; cached steps therefore equal the whole sequence.

    Attributes:
        num_positions: positions that the table covers when it is interpolated.
    """

    def __init__(self, d_model: int, max_length: int, *, num_positions: int, interpolation_factor: float) -> None:
        super().__init__()
        self.table = embedding(max_length, d_model)
        self.interpolation_factor = interpolation_factor
        self.num_positions = num_positions

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """Add the vectors of pos [B, T] to x [B, T, D].

        Raises:
            DataError: a position is beyond the table.
        """
        if pos.numel() and int(pos.max()) >= self.num_positions:
            raise DataError(
                f"a sentence of {int(pos.max()) + 1} tokens is longer than the {self.num_positions} learned positions; "
                "raise max_length or interpolation_factor of the learned positions, or use sinusoidal ones"
            )
        if self.interpolation_factor == 1:
            return x + self.table(pos).to(x.dtype)  # type: ignore[no-any-return]
        row = pos / self.interpolation_factor  # [B, T]
        below = row.long()
        above = (below + 1).clamp(max=self.table.num_embeddings - 1)
        mixed = torch.lerp(self.table(below), self.table(above), (row - below).unsqueeze(-1).to(self.table.weight))
        return x + mixed.to(x.dtype)
