"""ALiBi whose slopes are scaled by a learned factor."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mtkit.layers.sizes import Heads
from mtkit.layers.variants.config import ScaledALiBiConfig
from mtkit.layers.variants.positions import ALiBi


class ScaledALiBi(ALiBi):
    """ALiBi times a learned factor."""

    def __init__(self, config: ScaledALiBiConfig, d_model: int, heads: Heads, *, causal: bool) -> None:
        super().__init__(config, d_model, heads, causal=causal)
        self.factor = nn.Parameter(torch.full((1,), config.start))

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, H, T, S]."""
        return self.factor * super().bias(q, k, q_pos, k_pos)
