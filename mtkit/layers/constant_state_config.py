"""What may stand in the place of a decoder's self-attention and remembers the same however much was said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mtkit.layers.average_attention import AverageAttention
from mtkit.layers.sizes import Width
from mtkit.layers.ssru import SSRU

if TYPE_CHECKING:
    from mtkit.layers.attention_config import SelfAttentionParts


@dataclass(frozen=True, kw_only=True)
class SSRUConfig:
    """A simpler simple recurrent unit; a decoder's (see SSRU)."""

    kind: Literal["ssru"] = "ssru"

    def build(self, parts: SelfAttentionParts) -> SSRU:
        """The layer."""
        return SSRU(parts.d_model)


@dataclass(frozen=True, kw_only=True)
class AverageAttentionConfig:
    """The average of all tokens so far; a decoder's (see AverageAttention)."""

    kind: Literal["average"] = "average"
    d_ff: Width | None = None  # of a layer on the average, as in the paper; null: none

    def build(self, parts: SelfAttentionParts) -> AverageAttention:
        """The layer."""
        return AverageAttention(parts.d_model, self.d_ff)
