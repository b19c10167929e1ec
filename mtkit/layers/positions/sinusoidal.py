"""Sinusoidal position encoding."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mtkit.layers.positions.base import Position


class Sinusoidal(Position):
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same, added to the embeddings.

    Vaswani et al. 2017, sec. 3.5. https://arxiv.org/abs/1706.03762
    Computed in float32 for the given positions; the length is unlimited.
    """

    frequency: Tensor  # [ceil(D/2)]

    def __init__(self, d_model: int, base: float = 10_000.0) -> None:
        super().__init__()
        exponent = torch.arange(0, d_model, 2, dtype=torch.float32) / d_model  # [D/2]
        self.register_buffer("frequency", torch.exp(-math.log(base) * exponent), persistent=False)
        self.d_model = d_model

    def encoding(self, pos: Tensor) -> Tensor:
        """Encode positions [...] -> [..., D], float32."""
        angle = pos.unsqueeze(-1).float() * self.frequency.float()  # [..., D/2]
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., : self.d_model]

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """Add the encoding of pos [B, T] to x [B, T, D]."""
        return x + self.encoding(pos).to(x.dtype)
