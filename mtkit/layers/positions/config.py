"""Configurations of encodings that act in attention, and the union of position encodings that a recipe can name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtkit.config import Limits, config, construct
from mtkit.layers.heads import Heads
from mtkit.layers.positions.absolute_config import (
    BinaryConfig,
    IndexConfig,
    LearnedConfig,
    NoPositionConfig,
    PositionConfigBase,
    RelativeIndexConfig,
    SinusoidalConfig,
)

if TYPE_CHECKING:
    from mtkit.layers.positions.base import Position


@config
class NoScaling:
    """Unscaled positions."""

    kind: Literal["none"] = "none"

    def apply(self, base: float, head_dim: int) -> tuple[float, float]:
        """Return the base and the divisor of positions."""
        return base, 1.0


@config
class LinearScaling:
    """Positions divided by `factor`: longer input keeps to the angles seen in training.

    Chen et al. 2023, eq. 4. https://arxiv.org/abs/2306.15595
    """

    kind: Literal["linear"] = "linear"
    # Longest input over longest training input. Default: the smallest whole number that changes anything.
    factor: Annotated[float, Limits(ge=1)] = 2.0

    def apply(self, base: float, head_dim: int) -> tuple[float, float]:
        """Return the base and the divisor of positions."""
        return base, self.factor


@config
class NTKScaling:
    """A larger base: the slowest pair rotates `factor` times slower, the fastest as before ("NTK-aware").

    base' = base · factor^(K / (K - 2)); Peng et al. 2023, sec. 3.1. https://arxiv.org/abs/2309.00071
    """

    kind: Literal["ntk"] = "ntk"
    # Longest input over longest training input. Default: the smallest whole number that changes anything.
    factor: Annotated[float, Limits(ge=1)] = 2.0

    def apply(self, base: float, head_dim: int) -> tuple[float, float]:
        """Return the base and the divisor of positions; a single pair (K = 2) has frequency 1 for any base."""
        return base * self.factor ** (head_dim / max(1, head_dim - 2)), 1.0


RoPEScaling = NoScaling | LinearScaling | NTKScaling


@config
class RoPEConfig(PositionConfigBase):
    """Rotary position encoding (see RoPE); the head dimension must be even."""

    kind: Literal["rope"] = "rope"
    builds: ClassVar[str] = "layers.positions.rope:RoPE"
    # Base of the wavelengths; a larger one suits longer sequences. Default: the paper's.
    base: Annotated[float, Limits(gt=1)] = 10_000.0
    # Whether pairs are (x_i, x_i+K/2), as in GPT-NeoX and Llama, instead of (x_2i, x_2i+1). Default: false, as in the
    # paper; the two differ in the order of weights alone.
    rotate_half: bool = False
    # Change of the angles for input that is longer than in training. Default: none, since most translations are not.
    scaling: RoPEScaling = field(default_factory=NoScaling)

    acts_in_attention: ClassVar[bool] = True
    needs_even_head_dim: ClassVar[bool] = True


@config
class ALiBiConfig(PositionConfigBase):
    """Linear biases (see ALiBi)."""

    kind: Literal["alibi"] = "alibi"
    builds: ClassVar[str] = "layers.positions.relative:ALiBi"

    acts_in_attention: ClassVar[bool] = True
    needs_scores: ClassVar[bool] = True


@config
class ShawConfig(PositionConfigBase):
    """Relative position representations on keys and values (see Shaw)."""

    kind: Literal["shaw"] = "shaw"
    builds: ClassVar[str] = "layers.positions.relative:Shaw"
    # Distance beyond which all distances share a vector. Default: the paper's; it found no gain above 4.
    max_distance: Annotated[int, Limits(gt=0)] = 16

    acts_in_attention: ClassVar[bool] = True
    is_shared: ClassVar[bool] = False
    needs_scores: ClassVar[bool] = True


def _check_buckets(num_buckets: int, max_distance: int) -> None:
    if max_distance <= num_buckets // 2:
        raise ValueError(
            f"max_distance: {max_distance} leaves no logarithmic buckets; it must exceed half of num_buckets "
            f"({num_buckets})"
        )


@config
class T5BiasConfig(PositionConfigBase):
    """Bucketed bias, shared over the layers (see T5Bias)."""

    kind: Literal["t5"] = "t5"
    builds: ClassVar[str] = "layers.positions.relative:T5Bias"
    # Number of distance buckets, both directions together. Default: the paper's.
    num_buckets: Annotated[int, Limits(ge=4, multiple_of=4)] = 32
    # Distance in tokens beyond which all distances share a bucket. Default: the paper's.
    max_distance: Annotated[int, Limits(gt=0)] = 128
    # Whether products of queries and keys are divided by sqrt(head_dim). Default: false, as in the paper, with
    # Adafactor; with Adam at a large rate true trains faster.
    scaled: bool = False

    acts_in_attention: ClassVar[bool] = True
    needs_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_buckets(self.num_buckets, self.max_distance)


@config
class TransformerXLConfig(PositionConfigBase):
    """Relative encoding of Transformer-XL (see TransformerXLPosition)."""

    kind: Literal["transformer_xl"] = "transformer_xl"
    builds: ClassVar[str] = "layers.positions.relative:TransformerXLPosition"

    acts_in_attention: ClassVar[bool] = True
    is_shared: ClassVar[bool] = False
    needs_scores: ClassVar[bool] = True


@config
class DeBERTaConfig(PositionConfigBase):
    """Disentangled attention (see DeBERTaPosition)."""

    kind: Literal["deberta"] = "deberta"
    builds: ClassVar[str] = "layers.positions.relative:DeBERTaPosition"
    # Distance c beyond which all distances share a vector. Default: enough for sentences; the paper has 512, for input
    # of 512 tokens.
    max_distance: Annotated[int, Limits(gt=0)] = 64

    acts_in_attention: ClassVar[bool] = True
    is_shared: ClassVar[bool] = False
    needs_scores: ClassVar[bool] = True

    def modules(self, d_model: int, heads: Heads, *, causal: bool, count: int) -> Sequence[Position]:
        """Build one table for all layers, and its projections for each."""
        from mtkit.layers.projections import embedding

        table = embedding(2 * self.max_distance, d_model)
        return [construct(self, table, heads) for _ in range(count)]


@config
class TUPEConfig(PositionConfigBase):
    """Untied positional encoding (see TUPE)."""

    kind: Literal["tupe"] = "tupe"
    builds: ClassVar[str] = "layers.positions.relative:TUPE"
    # Number of learned positions: tokens of the longest sentence, end of sentence included. Default: far above any
    # sentence; each costs d_model weights.
    max_length: Annotated[int, Limits(gt=0)] = 1024
    # Whether a bias per distance bucket is added (TUPE-R) or not (TUPE-A). Default: true, the better one in the paper.
    relative: bool = True
    # Number of distance buckets of `relative`, both directions together. Default: T5's.
    num_buckets: Annotated[int, Limits(ge=4, multiple_of=4)] = 32
    # Distance in tokens beyond which all distances share a bucket of `relative`. Default: T5's.
    max_distance: Annotated[int, Limits(gt=0)] = 128

    acts_in_attention: ClassVar[bool] = True
    needs_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_buckets(self.num_buckets, self.max_distance)

    @property
    def length_limit(self) -> int:
        """Maximum sentence length in tokens, end of sentence included."""
        return self.max_length


PositionConfig = (
    SinusoidalConfig
    | LearnedConfig
    | NoPositionConfig
    | RoPEConfig
    | ALiBiConfig
    | ShawConfig
    | T5BiasConfig
    | TransformerXLConfig
    | DeBERTaConfig
    | TUPEConfig
    | IndexConfig
    | RelativeIndexConfig
    | BinaryConfig
)
