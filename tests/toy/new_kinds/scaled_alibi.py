"""ALiBi whose slopes are scaled by a learned factor."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mtkit.layers.positions.relative import ALiBi


class ScaledALiBi(ALiBi):
    """ALiBi times a learned factor."""

    def __init__(self, num_heads: int, start: float) -> None:
        super().__init__(num_heads)
        self.factor = nn.Parameter(torch.full((1,), start))

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, H, T, S]."""
        return self.factor * super().bias(q, k, q_pos, k_pos)
