"""ALiBi whose slopes are scaled by a learned factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from mtkit.layers.heads import Heads
from mtkit.layers.positions.alibi import ALiBi
from mtkit.layers.positions.base import PositionConfigBase, StackPositions, shared_across_layers


class ScaledALiBi(ALiBi):
    """ALiBi times a learned factor."""

    def __init__(self, num_heads: int, start: float) -> None:
        super().__init__(num_heads)
        self.factor = nn.Parameter(torch.full((1,), start))

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, H, T, S]."""
        return self.factor * super().bias(q, k, q_pos, k_pos)


@dataclass(frozen=True, kw_only=True)
class ScaledALiBiConfig(PositionConfigBase):
    """Linear biases with a learned factor."""

    kind: Literal["scaled_alibi"] = "scaled_alibi"
    start: float = 1.0  # the factor's initial value; 1 is ALiBi

    acts_in_attention: ClassVar[bool] = True
    needs_scores: ClassVar[bool] = True

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build one module for all layers."""
        return shared_across_layers(ScaledALiBi(heads.num_heads, self.start), layers)
