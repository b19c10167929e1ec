"""Closed lists of the models and searches that the fast road takes; anything else runs as it is written.

The fast road is `FastModel`: whole searches in the native library, without torch. The other road is the layers and
searches as they are written in layers/, models/ and search/. A new kind, and a new key with another value than its
default, is on the other road until it is listed here.
"""

from __future__ import annotations

from dataclasses import fields
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
# Keys of the model with which the library reckons, or which matter in training only.
SERVED_MODEL_KEYS = frozenset(
    [
        "kind",
        "d_model",
        "d_ff",
        "num_heads",
        "head_dim",
        "scaled_attention",
        "bias",
        "encoder_layers",
        "decoder_layers",
        "encoder_sharing",
        "decoder_sharing",
        "tied_embeddings",
        "scaled_embeddings",
        "embedding_norm",
        "output_bias",
        "encoder_heads",
        "decoder_heads",
        "cross_heads",
        "dropout",
        "attention_dropout",
        "activation_dropout",
        "layerdrop",
    ]
).union(SERVED_PARTS)
SERVED_METHODS = (BeamConfig, SamplingConfig)  # of search; greedy search is a beam of 1
# Keys of the search that the library obeys, or that are obeyed around it.
SERVED_SEARCH_KEYS = frozenset(
    [
        "method",
        "beam_size",
        "n_best",
        "length_penalty",
        "max_length",
        "min_length",
        "patience",
        "early_stopping",
        "coverage_penalty",
        "no_repeat_ngram",
        "repetition_penalty",
        "allow_unknown",
        "split_long_lines",
        "retry_loops",
        "rerank",
    ]
)


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
    # every query head has keys and values of its own, which are as wide
    usual = {
        "num_kv_heads": config.num_kv_heads in (None, config.num_heads),
        "value_head_dim": config.heads.value_dim == config.heads.head_dim,
    }
    return _changed_key("model", config, SERVED_MODEL_KEYS.union(key for key, is_usual in usual.items() if is_usual))


def unserved_search(config: Any) -> str | None:
    """The key of a SearchConfig that the fast road does not take; None: it takes the search.

    Besides, texts that a translation must include, ensembles and the fusion of a language model run as written.
    """
    if type(config.method) not in SERVED_METHODS:
        return f"search.method {config.method.kind}"
    return _changed_key("search", config, SERVED_SEARCH_KEYS.union(config.method.ignored_keys))


def _changed_key(section: str, config: Any, served: frozenset[str]) -> str | None:
    """The first key of a configuration that is not served and has another value than its default."""
    others = (key for key in fields(config) if key.name not in served)
    return next((f"{section}.{key.name}" for key in others if getattr(config, key.name) != key.default), None)
