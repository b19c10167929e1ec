"""The union of position encodings that a recipe can name."""

from __future__ import annotations

from mtkit.layers.positions.absolute_config import (
    BinaryConfig,
    IndexConfig,
    LearnedConfig,
    NoPositionConfig,
    RelativeIndexConfig,
    SinusoidalConfig,
)
from mtkit.layers.positions.relative_config import (
    ALiBiConfig,
    DeBERTaConfig,
    RoPEConfig,
    ShawConfig,
    T5BiasConfig,
    TransformerXLConfig,
    TUPEConfig,
)

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
