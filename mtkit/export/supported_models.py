"""Models that each export target supports: allow lists over the keys of a model's configuration.

A new kind of position encoding, norm or attention is refused until it is added here, with a test that compares the
translations of both engines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, fields
from typing import Any

from mtkit.errors import UsageError
from mtkit.layers.attention.config import FullAttentionConfig
from mtkit.layers.feed_forward.config import DenseConfig, GatedConfig
from mtkit.layers.norms.config import (
    DeepNormConfig,
    LayerNormConfig,
    PostNormConfig,
    PreNormConfig,
    RMSNormConfig,
    SandwichNormConfig,
)
from mtkit.layers.positions.absolute_config import LearnedConfig, NoPositionConfig, SinusoidalConfig
from mtkit.layers.positions.config import ALiBiConfig, DeBERTaConfig, RoPEConfig, ShawConfig, T5BiasConfig
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.transformer.config import TransformerConfig

# keys that every exporter supports with any value, or that only matter in training
ANY_VALUE = frozenset(
    {
        "kind",
        "d_model",
        "d_ff",
        "num_heads",
        "num_kv_heads",
        "head_dim",
        "dropout",
        "attention_dropout",
        "activation_dropout",
        "layerdrop",
        "encoder_layers",
        "decoder_layers",
        "encoder_sharing",
        "decoder_sharing",
        "tied_embeddings",
        "scaled_embeddings",
        "output_bias",
    }
)


@dataclass(frozen=True)
class SupportedModels:
    """Allow list of one export target; a key that is in neither list must have its default value."""

    target: str
    any_value: Set[str]
    kinds: Mapping[str, tuple[type[Any], ...]]

    def check(self, config: ModelConfigBase) -> TransformerConfig:
        """Return the configuration if its model can be exported.

        Raises:
            UsageError: it cannot; the message names every unsupported key.
        """
        if not isinstance(config, TransformerConfig):
            raise UsageError(f"model.kind: {config.kind}: {self.target} export supports only kind: transformer")
        errors = list(self._unsupported_keys(config))
        if errors:
            raise UsageError("\n".join(f"model.{error}: not supported by {self.target} export" for error in errors))
        return config

    def _unsupported_keys(self, config: TransformerConfig) -> Iterator[str]:
        default = TransformerConfig()
        for name in (field.name for field in fields(config)):
            value = vars(config)[name]
            if name in self.kinds:
                if type(value) not in self.kinds[name]:  # a kind derived from a supported one may compute otherwise
                    yield f"{name}.kind: {value.kind}"
                elif name == "residual" and type(value.norm) not in (LayerNormConfig, RMSNormConfig):
                    yield f"{name}.norm.kind: {value.norm.kind}"
            elif name not in self.any_value and value != vars(default)[name]:
                yield f"{name}: {value}"


_COMMON_POSITIONS = (SinusoidalConfig, LearnedConfig, NoPositionConfig, RoPEConfig, ShawConfig, T5BiasConfig)
_COMMON_KINDS: dict[str, tuple[type[Any], ...]] = {
    "feed_forward": (DenseConfig, GatedConfig),
    "residual": (PreNormConfig, PostNormConfig, SandwichNormConfig, DeepNormConfig),
    "encoder_attention": (FullAttentionConfig,),
    "decoder_attention": (FullAttentionConfig,),
}

CTRANSLATE2 = SupportedModels(
    "CTranslate2",
    ANY_VALUE,
    {
        **_COMMON_KINDS,
        "encoder_positions": _COMMON_POSITIONS,
        "decoder_positions": (*_COMMON_POSITIONS, ALiBiConfig),  # its ALiBi is causal
    },
)
# torch traces the modules themselves, so that keys which change only their computation are supported
ONNX = SupportedModels(
    "ONNX",
    ANY_VALUE | {"qk_norm", "parallel_sublayers"},
    {
        **_COMMON_KINDS,
        "encoder_positions": (*_COMMON_POSITIONS, ALiBiConfig, DeBERTaConfig),
        "decoder_positions": (*_COMMON_POSITIONS, ALiBiConfig, DeBERTaConfig),
    },
)
# transformers' MarianMTModel: post-norm, sinusoids, no shared or pruned layers
MARIAN = SupportedModels(
    "Hugging Face",
    ANY_VALUE - {"num_kv_heads", "head_dim", "encoder_sharing", "decoder_sharing"},
    {
        "feed_forward": (DenseConfig,),
        "residual": (PostNormConfig,),
        "encoder_attention": (FullAttentionConfig,),
        "decoder_attention": (FullAttentionConfig,),
        "encoder_positions": (SinusoidalConfig,),
        "decoder_positions": (SinusoidalConfig,),
    },
)
