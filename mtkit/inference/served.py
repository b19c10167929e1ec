"""Closed lists of the models and searches that the fast road takes; anything else runs as it is written.

The fast road is `FastModel`: whole searches in the native library, without torch. The other road is the layers and
searches as they are written in layers/, models/ and search/. A new kind is on the other road until it is listed here.
"""

from __future__ import annotations

from typing import Any

from mtkit.layers.attention.config import FullAttentionConfig
from mtkit.layers.feed_forward.config import DenseConfig
from mtkit.layers.norms.config import LayerNormConfig, NoNormConfig, PostNormConfig, PreNormConfig, RMSNormConfig
from mtkit.layers.positions.absolute_config import LearnedConfig, NoPositionConfig, SinusoidalConfig
from mtkit.layers.positions.config import RoPEConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import BeamConfig, SamplingConfig

# The configurations of a Transformer's parts that the library computes, by key.
SERVED_PARTS: dict[str, tuple[type, ...]] = {
    "encoder_attention": (FullAttentionConfig,),
    "decoder_attention": (FullAttentionConfig,),
    "encoder_positions": (NoPositionConfig, SinusoidalConfig, LearnedConfig, RoPEConfig),
    "decoder_positions": (NoPositionConfig, SinusoidalConfig, LearnedConfig, RoPEConfig),
    "residual": (PreNormConfig, PostNormConfig),
    "feed_forward": (DenseConfig,),
}
SERVED_NORMS = (LayerNormConfig, RMSNormConfig, NoNormConfig)
SERVED_METHODS = (BeamConfig, SamplingConfig)  # of search; greedy search is a beam of 1


def unserved_model(config: Any) -> str | None:
    """The part of a model's configuration that the fast road does not take; None: it takes the model."""
    if type(config) is not TransformerConfig:
        return f"model.kind {config.kind}"
    for key, served in SERVED_PARTS.items():
        part = getattr(config, key)
        if type(part) not in served:
            return f"model.{key} {part.kind}"
    residual: Any = config.residual
    if type(residual.norm) not in SERVED_NORMS:
        return f"model.residual.norm {residual.norm.kind}"
    others = {
        "num_kv_heads": config.num_kv_heads not in (None, config.num_heads),  # keys of its own for every query head
        "value_head_dim": config.heads.value_dim != config.heads.head_dim,
        "qk_norm": config.qk_norm != "none",
        "parallel_sublayers": config.parallel_sublayers,
        "head_gates": config.head_gates is not None,
    }
    return next((f"model.{key}" for key, is_other in others.items() if is_other), None)


def unserved_search(config: Any) -> str | None:
    """The key of a SearchConfig that the fast road does not take; None: it takes the search.

    Besides, texts that a translation must include, ensembles and the fusion of a language model run as written.
    """
    if type(config.method) not in SERVED_METHODS:
        return f"search.method {config.method.kind}"
    if config.coverage_penalty and "coverage_penalty" not in config.method.ignored_keys:
        return "search.coverage_penalty"
    return None
