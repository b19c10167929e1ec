"""Configurations of encodings that are added to the embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtkit.config import Limits, config
from mtkit.layers.heads import Heads
from mtkit.layers.positions.capabilities import PositionConfigBase

if TYPE_CHECKING:
    from mtkit.layers.positions.base import StackPositions


@config
class SinusoidalConfig(PositionConfigBase):
    """Sinusoidal position encoding (see Sinusoidal)."""

    kind: Literal["sinusoidal"] = "sinusoidal"

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build the encoding for embeddings of width d_model."""
        from mtkit.layers.positions.absolute import Sinusoidal
        from mtkit.layers.positions.base import embedding_only

        return embedding_only(Sinusoidal(d_model), layers)


@config
class LearnedConfig(PositionConfigBase):
    """Learned absolute positions (see Learned)."""

    kind: Literal["learned"] = "learned"
    # Number of learned positions: tokens of the longest sentence, end of sentence included. Default: far above any
    # sentence; each costs d_model weights.
    max_length: Annotated[int, Limits(gt=0)] = 1024
    # Factor by which the positions are stretched: sentences may be that much longer, and read between two rows.
    # Default: 1, no interpolation, as long as no input is longer.
    interpolation_factor: Annotated[float, Limits(ge=1)] = 1.0

    @property
    def length_limit(self) -> int:
        """Maximum sentence length in tokens, end of sentence included."""
        return int((self.max_length - 1) * self.interpolation_factor) + 1

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build the table for embeddings of width d_model."""
        from mtkit.layers.positions.absolute import Learned
        from mtkit.layers.positions.base import embedding_only

        return embedding_only(
            Learned(
                d_model,
                self.max_length,
                num_positions=self.length_limit,
                interpolation_factor=self.interpolation_factor,
            ),
            layers,
        )


@config
class NoPositionConfig(PositionConfigBase):
    """No position encoding; only a causal mask carries order. Kazemnejad et al. 2023, "NoPE" (arXiv:2305.19466)."""

    kind: Literal["none"] = "none"

    encodes_order: ClassVar[bool] = False

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build the identity."""
        from mtkit.layers.positions.base import Position, embedding_only

        return embedding_only(Position(), layers)


@config
class IndexConfig(PositionConfigBase):
    """The position as a number; fails on long sentences (see Index)."""

    kind: Literal["index"] = "index"

    is_recommended: ClassVar[bool] = False

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build the encoding; it has no parameters."""
        from mtkit.layers.positions.absolute import Index
        from mtkit.layers.positions.base import embedding_only

        return embedding_only(Index(), layers)


@config
class RelativeIndexConfig(PositionConfigBase):
    """The position divided by the sentence's length, for encoders (see RelativeIndex)."""

    kind: Literal["index_over_length"] = "index_over_length"

    is_recommended: ClassVar[bool] = False
    needs_whole_sentence: ClassVar[bool] = True

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build the encoding; it has no parameters."""
        from mtkit.layers.positions.absolute import RelativeIndex
        from mtkit.layers.positions.base import embedding_only

        return embedding_only(RelativeIndex(), layers)


@config
class BinaryConfig(PositionConfigBase):
    """The bits of the position (see Binary)."""

    kind: Literal["binary"] = "binary"

    is_recommended: ClassVar[bool] = False

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build the encoding; it has no parameters."""
        from mtkit.layers.positions.absolute import Binary
        from mtkit.layers.positions.base import embedding_only

        return embedding_only(Binary(), layers)
