"""Absolute position encodings: vectors that are added to the embeddings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mtkit.errors import DataError
from mtkit.layers.heads import Heads
from mtkit.layers.positions.base import Position
from mtkit.layers.projections import embedding

if TYPE_CHECKING:
    from mtkit.layers.positions.absolute_config import LearnedConfig, SinusoidalConfig

FREQUENCY_BASE = 10_000.0  # of sinusoidal positions


class Sinusoidal(Position):
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same, added to the embeddings.

    Vaswani et al. 2017, sec. 3.5. https://arxiv.org/abs/1706.03762
    Computed in float32 for the given positions; the length is unlimited. Variants of other programs: all sines before
    all cosines, positions that begin with another number than 0, and exponents that reach 1 (see SinusoidalConfig).
    """

    frequency: Tensor  # [ceil(D/2)]

    def __init__(self, config: SinusoidalConfig, d_model: int, heads: Heads, *, causal: bool) -> None:
        super().__init__(config, d_model, heads, causal=causal)
        exponent = torch.arange(0, d_model, 2, dtype=torch.float32) / config.divisor(d_model)  # [D/2]
        self.register_buffer("frequency", torch.exp(-math.log(FREQUENCY_BASE) * exponent), persistent=False)
        self.d_model, self.offset = d_model, config.offset
        self.concatenated = config.layout == "concatenated"

    def encoding(self, pos: Tensor) -> Tensor:
        """Encode positions [...] -> [..., D], float32."""
        angle = (pos + self.offset).unsqueeze(-1).float() * self.frequency.float()  # [..., D/2]
        if self.concatenated:
            return torch.cat([angle.sin(), angle.cos()], dim=-1)[..., : self.d_model]
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., : self.d_model]

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """Add the encoding of pos [B, T] to x [B, T, D]."""
        return x + self.encoding(pos).to(x.dtype)


class Learned(Position):
    """Learned vectors for the first `max_length` positions, added to the embeddings.

    Gehring et al. 2017, sec. 3.1; Vaswani et al. 2017, table 3 row E. A position beyond the table is an error.
    With `interpolation_factor` s, position p reads the table at row p/s, interpolated linearly between two rows, so
    that the table covers s times as many positions (Chen et al. 2023, eq. 4, applied to a table). The vector depends on
    p alone; cached steps therefore equal the whole sequence.

    Attributes:
        num_positions: positions that the table covers when it is interpolated.
    """

    def __init__(self, config: LearnedConfig, d_model: int, heads: Heads, *, causal: bool) -> None:
        super().__init__(config, d_model, heads, causal=causal)
        self.table = embedding(config.max_length, d_model)
        self.interpolation_factor = config.interpolation_factor
        self.num_positions = config.length_limit

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
