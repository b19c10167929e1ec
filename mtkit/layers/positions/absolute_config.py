"""Configurations of encodings that are added to the embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtkit.config import Limits, config, construct
from mtkit.layers.heads import Heads

if TYPE_CHECKING:
    from mtkit.layers.positions.base import Position, StackPositions


@config
class PositionConfigBase:
    """Capabilities of a position encoding, which checks of recipes ask for; a kind overrides those that differ."""

    encodes_order: ClassVar[bool] = True  # tells tokens apart by position
    acts_in_attention: ClassVar[bool] = False  # on queries, keys or scores, not (only) on the embeddings
    needs_scores: ClassVar[bool] = False  # adds a bias to the score of each pair of tokens
    is_recommended: ClassVar[bool] = True  # messages suggest it as a remedy; false of kinds for comparison
    needs_whole_sentence: ClassVar[bool] = False  # uses the sentence's length, unknown while a decoder writes it
    needs_even_head_dim: ClassVar[bool] = False  # rotates pairs of numbers
    is_shared: ClassVar[bool] = True  # one module for all layers, if it acts in attention
    builds: ClassVar[str]

    @property
    def length_limit(self) -> int | None:
        """Maximum sentence length in tokens, end of sentence included; None if unlimited."""
        return None

    def module(self, d_model: int, heads: Heads, *, causal: bool) -> Position:
        """Build the encoding for embeddings of width d_model, or for layers with these heads; `causal` in a decoder."""
        return construct(self, d_model, heads, causal=causal)

    def modules(self, d_model: int, heads: Heads, *, causal: bool, count: int) -> Sequence[Position]:
        """Build the encodings of several layers."""
        return [self.module(d_model, heads, causal=causal) for _ in range(count)]

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build the encoding of a stack: of its embeddings, or of its layers."""
        from mtkit.layers.positions.base import Position, StackPositions

        if not self.acts_in_attention:
            identities = [NoPositionConfig().module(d_model, heads, causal=causal) for _ in range(layers)]
            return StackPositions(self.module(d_model, heads, causal=causal), identities)
        count = 1 if self.is_shared else layers
        modules = self.modules(d_model, heads, causal=causal, count=count)
        return StackPositions(Position(), [*modules] * (layers // count))


@config
class SinusoidalConfig(PositionConfigBase):
    """Sinusoidal position encoding (see Sinusoidal)."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    builds: ClassVar[str] = "layers.positions.absolute:Sinusoidal"
    # Order of the numbers: interleaved alternates sines and cosines, concatenated has all sines first. Default:
    # interleaved, as in the paper; concatenated is that of Marian and fairseq, for models of theirs.
    layout: Literal["interleaved", "concatenated"] = "interleaved"
    # Number of the first position. Default: 0, as in the paper; fairseq begins with 2.
    offset: Annotated[int, Limits(ge=0, le=1000)] = 0
    # Whether the longest wavelength is exactly 2 pi 10000, instead of one step less. Default: false, as in the paper;
    # true is that of tensor2tensor and fairseq, for models of theirs.
    reaches_base: bool = False

    def divisor(self, d_model: int) -> int:
        """Divisor of the exponents 0, 2, 4 ... of the wavelengths."""
        return max(d_model - 2, 1) if self.reaches_base else d_model


@config
class LearnedConfig(PositionConfigBase):
    """Learned absolute positions (see Learned)."""

    kind: Literal["learned"] = "learned"
    builds: ClassVar[str] = "layers.positions.absolute:Learned"
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


@config
class NoPositionConfig(PositionConfigBase):
    """No position encoding; only a causal mask carries order. Kazemnejad et al. 2023, "NoPE" (arXiv:2305.19466)."""

    kind: Literal["none"] = "none"
    builds: ClassVar[str] = "layers.positions.base:Position"

    encodes_order: ClassVar[bool] = False


@config
class IndexConfig(PositionConfigBase):
    """The position as a number; fails on long sentences (see Index)."""

    kind: Literal["index"] = "index"
    builds: ClassVar[str] = "layers.positions.absolute:Index"

    is_recommended: ClassVar[bool] = False


@config
class RelativeIndexConfig(PositionConfigBase):
    """The position divided by the sentence's length, for encoders (see RelativeIndex)."""

    kind: Literal["index_over_length"] = "index_over_length"
    builds: ClassVar[str] = "layers.positions.absolute:RelativeIndex"

    is_recommended: ClassVar[bool] = False
    needs_whole_sentence: ClassVar[bool] = True


@config
class BinaryConfig(PositionConfigBase):
    """The bits of the position (see Binary)."""

    kind: Literal["binary"] = "binary"
    builds: ClassVar[str] = "layers.positions.absolute:Binary"

    is_recommended: ClassVar[bool] = False
