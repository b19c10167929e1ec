"""Models that each export target supports: allow lists over the keys of a model's configuration.

A new kind of position encoding, norm or attention is refused until it is added here, with a test that compares the
translations of both engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mtkit.errors import UsageError
from mtkit.layers.config import (
    DeepNormConfig,
    DenseConfig,
    FullAttentionConfig,
    GatedConfig,
    LearnedConfig,
    NoPositionConfig,
    PostNormConfig,
    PreNormConfig,
    RoPEConfig,
    SandwichNormConfig,
    SinusoidalConfig,
)
from mtkit.layers.variants.config import ALiBiConfig, DeBERTaConfig, ShawConfig, T5BiasConfig
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.transformer.checks import ANY_VALUE, AllowList
from mtkit.models.transformer.config import TransformerConfig


@dataclass(frozen=True)
class SupportedModels:
    """Allow list of one export target."""

    target: str
    allowed: AllowList

    def check(self, config: ModelConfigBase) -> TransformerConfig:
        """Return the configuration if its model can be exported.

        Raises:
            UsageError: it cannot; the message names every unsupported key.
        """
        if not isinstance(config, TransformerConfig):
            raise UsageError(f"model.kind: {config.kind}: {self.target} export supports only kind: transformer")
        errors = [
            f"model.{key}: {value}: not supported by {self.target} export"
            for key, value in self.allowed.unsupported(config)
        ]
        if errors:
            raise UsageError("\n".join(errors))
        return config


_COMMON_POSITIONS = (SinusoidalConfig, LearnedConfig, NoPositionConfig, RoPEConfig, ShawConfig, T5BiasConfig)
_COMMON_KINDS: dict[str, tuple[type[Any], ...]] = {
    "feed_forward": (DenseConfig, GatedConfig),
    "residual": (PreNormConfig, PostNormConfig, SandwichNormConfig, DeepNormConfig),
    "encoder_attention": (FullAttentionConfig,),
    "decoder_attention": (FullAttentionConfig,),
}

# of models of other programs, such as T5 and mBART
_FOREIGN = {"bias", "embedding_norm", "decoder_d_ff", "decoder_num_heads"}

CTRANSLATE2 = SupportedModels(
    "CTranslate2",
    AllowList(
        ANY_VALUE | _FOREIGN | {"scaled_attention"},
        {
            **_COMMON_KINDS,
            "encoder_positions": _COMMON_POSITIONS,
            "decoder_positions": (*_COMMON_POSITIONS, ALiBiConfig),  # its ALiBi is causal
        },
    ),
)
# torch traces the modules themselves, so that keys which change only their computation are supported
ONNX = SupportedModels(
    "ONNX",
    AllowList(
        ANY_VALUE | _FOREIGN | {"scaled_attention", "qk_norm", "parallel_sublayers"},
        {
            **_COMMON_KINDS,
            "encoder_positions": (*_COMMON_POSITIONS, ALiBiConfig, DeBERTaConfig),
            "decoder_positions": (*_COMMON_POSITIONS, ALiBiConfig, DeBERTaConfig),
        },
    ),
)
