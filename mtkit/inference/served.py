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
from mtkit.models.allow_list import ANY_VALUE, AllowList
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import BeamConfig, SamplingConfig

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
    """The first key of a model's configuration that keeps it off the fast road; None: the fast road takes the model."""
    if type(config) is not TransformerConfig:
        return "kind"
    # every query head has keys and values of its own, which are as wide
    usual = {
        "num_kv_heads": config.num_kv_heads in (None, config.num_heads),
        "value_head_dim": config.heads.value_dim == config.heads.head_dim,
    }
    return next((key for key, _ in SERVED_MODELS.unsupported(config) if not usual.get(key)), None)


def unserved_search(config: Any) -> str | None:
    """The key of a SearchConfig that the fast road does not take; None: it takes the search.

    Besides, texts that a translation must include, ensembles and the fusion of a language model run as written.
    """
    if type(config.method) not in SERVED_METHODS:
        return f"search.method {config.method.kind}"
    served = SERVED_SEARCH_KEYS.union(config.method.ignored_keys)
    others = (key for key in fields(config) if key.name not in served)
    return next((f"search.{key.name}" for key in others if getattr(config, key.name) != key.default), None)
