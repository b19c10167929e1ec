"""No position encoding at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mtkit.layers.heads import Heads
from mtkit.layers.position import Position, Positions, on_embeddings


@dataclass(frozen=True, kw_only=True)
class NoPositionConfig:
    """No positions: the order is known only through the causal pattern (Kazemnejad et al. 2023, "NoPE")."""

    kind: Literal["none"] = "none"

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> Positions:
        """The scheme that does nothing."""
        return on_embeddings(Position(), layers)
