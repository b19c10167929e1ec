"""No position encoding at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mtkit.layers.position import Position


@dataclass(frozen=True, kw_only=True)
class NoPositionConfig:
    """No positions: the order is known only through the causal pattern (Kazemnejad et al. 2023, "NoPE")."""

    kind: Literal["none"] = "none"

    def build(self, d_model: int, num_heads: int, head_dim: int) -> Position:
        """The scheme that does nothing."""
        return Position()
