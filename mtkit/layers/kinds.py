"""Unions of the kinds of attention, positions and feed-forward layers that a recipe can name."""

from __future__ import annotations

from mtkit.layers.config import (
    DenseConfig,
    FullAttentionConfig,
    GatedConfig,
    LearnedConfig,
    NoPositionConfig,
    RoPEConfig,
    SinusoidalConfig,
)
from mtkit.layers.variants.config import (
    ALiBiConfig,
    AverageAttentionConfig,
    BinaryConfig,
    BinaryPartitionConfig,
    DeBERTaConfig,
    GatedMLPConfig,
    IndexConfig,
    LinformerConfig,
    LongformerConfig,
    LSHConfig,
    MixtureOfExpertsConfig,
    PerformerConfig,
    RelativeIndexConfig,
    ShawConfig,
    SSRUConfig,
    StridedAttentionConfig,
    T5BiasConfig,
    TransformerXLConfig,
    TUPEConfig,
    WindowAttentionConfig,
)

AttentionConfig = (
    FullAttentionConfig
    | WindowAttentionConfig
    | StridedAttentionConfig
    | LongformerConfig
    | BinaryPartitionConfig
    | LSHConfig
    | LinformerConfig
    | PerformerConfig
    | SSRUConfig
    | AverageAttentionConfig
    | GatedMLPConfig
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

FeedForwardConfig = DenseConfig | GatedConfig | MixtureOfExpertsConfig
