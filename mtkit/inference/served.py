"""Closed list of the models that the fast road takes; anything else runs as it is written.

The fast road is `FastModel`: whole searches in the native library, without torch. The other road is the layers and
searches as they are written in layers/, models/ and search/. A new kind, and a new key with another value than its
default, is on the other road until it is listed here; for searches, in search/support.py.
"""

from __future__ import annotations

from typing import Any

from mtkit.layers.attention.config import FullAttentionConfig
from mtkit.layers.feed_forward.config import DenseConfig
from mtkit.layers.norms.config import LayerNormConfig, NoNormConfig, PostNormConfig, PreNormConfig, RMSNormConfig
from mtkit.layers.positions.absolute_config import LearnedConfig, NoPositionConfig, SinusoidalConfig
from mtkit.layers.positions.config import RoPEConfig
from mtkit.models.allow_list import ANY_VALUE, AllowList
from mtkit.models.transformer.config import TransformerConfig

SERVED_MODELS = AllowList(
    any_value=ANY_VALUE - {"num_kv_heads"}
    | {"scaled_attention", "bias", "embedding_norm", "encoder_heads", "decoder_heads", "cross_heads"},
    kinds={
        "encoder_attention": (FullAttentionConfig,),
        "decoder_attention": (FullAttentionConfig,),
        "encoder_positions": (NoPositionConfig, SinusoidalConfig, LearnedConfig, RoPEConfig),
        "decoder_positions": (NoPositionConfig, SinusoidalConfig, LearnedConfig, RoPEConfig),
        "residual": (PreNormConfig, PostNormConfig),
        "feed_forward": (DenseConfig,),
    },
    norms=(LayerNormConfig, RMSNormConfig, NoNormConfig),
)


def unserved_model(config: Any) -> str | None:
    """The first key of a model's configuration that keeps it off the fast road; None: the fast road takes the model."""
    if type(config) is not TransformerConfig:
        return "kind"
    # every query head has keys and values of its own, which are as wide
    usual = {
        "num_kv_heads": config.num_kv_heads in (None, config.num_heads),
        "value_head_dim": config.heads.value_dim == config.heads.head_dim,
    }
    return next((key for key, _ in SERVED_MODELS.unsupported(config) if not usual.get(key)), None)
