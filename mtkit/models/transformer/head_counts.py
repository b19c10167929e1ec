"""Number of attention heads of each layer, where layers differ: models whose heads were pruned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mtkit.layers.attention.config import AttentionConfig
from mtkit.layers.positions.config import PositionConfig
from mtkit.models.transformer.sharing import SharingConfig


@dataclass(frozen=True)
class HeadCounts:
    """Head counts of a stack and the keys that they depend on.

    Attributes:
        key: of the recipe.
        counts: heads of each layer; None: `num_heads` in all.
        layers: number of layers.
        attention: self-attention of the stack; None for cross-attention.
        positions: position encoding of the stack; None for cross-attention.
        sharing: which layers share their weights.
    """

    key: str
    counts: Sequence[int] | None
    layers: int
    attention: AttentionConfig | None
    positions: PositionConfig | None
    sharing: SharingConfig

    def check(self, *, num_heads: int, num_kv_heads: int | None) -> None:
        """Check the counts.

        Raises:
            ValueError: the number of counts is not that of the layers, a count is not in 1 ... num_heads, or another
                key needs the same number of heads in all layers.
        """
        if self.counts is None:
            return
        if len(self.counts) != self.layers:
            raise ValueError(f"{self.key}: {len(self.counts)} counts for {self.layers} layers; give one for each layer")
        if not all(1 <= count <= num_heads for count in self.counts):
            raise ValueError(f"{self.key}: {list(self.counts)} has a count outside 1 to num_heads {num_heads}")
        needs_equal = {
            "num_kv_heads": num_kv_heads is not None,
            "layers that share weights": self.sharing.shares_layers,
            "attention other than full": self.attention is not None and not self.attention.attends_to_all,
            "positions with a bias for each head": self.positions is not None and self.positions.needs_scores,
        }
        if reasons := [reason for reason, holds in needs_equal.items() if holds]:
            raise ValueError(f"{self.key}: cannot be combined with {', '.join(reasons)}; omit it")

    def of_layer(self, index: int) -> int | None:
        """The count of a layer; None: `num_heads`."""
        return None if self.counts is None else self.counts[index]
