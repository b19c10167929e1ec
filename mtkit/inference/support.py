"""Support of the native backend: a closed list of models, and number formats.

The reference implementation, the layers and searches of layers/, models/ and search/ in torch, runs anything else: a
new kind, and a new key with another value than its default, until it is listed here. For searches the list is in
search/support.py.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from mtkit.hardware import CPUINFO, cpu_has_bf16
from mtkit.layers.config import (
    DenseConfig,
    FullAttentionConfig,
    GatedConfig,
    LayerNormConfig,
    LearnedConfig,
    NoNormConfig,
    NoPositionConfig,
    PostNormConfig,
    PreNormConfig,
    RMSNormConfig,
    RoPEConfig,
    SinusoidalConfig,
)
from mtkit.layers.variants.config import T5BiasConfig
from mtkit.models.transformer.checks import ANY_VALUE, AllowList
from mtkit.models.transformer.config import TransformerConfig
from mtkit.native.library import CONSTANTS, chosen_instruction_set

SUPPORTED_MODELS = AllowList(
    any_value=ANY_VALUE - {"num_kv_heads"}
    | {
        "scaled_attention",
        "bias",
        "embedding_norm",
        "decoder_d_ff",
        "decoder_num_heads",
        "encoder_heads",
        "decoder_heads",
        "cross_heads",
    },
    kinds={
        "encoder_attention": (FullAttentionConfig,),
        "decoder_attention": (FullAttentionConfig,),
        "encoder_positions": (NoPositionConfig, SinusoidalConfig, LearnedConfig, RoPEConfig, T5BiasConfig),
        "decoder_positions": (NoPositionConfig, SinusoidalConfig, LearnedConfig, RoPEConfig, T5BiasConfig),
        "residual": (PreNormConfig, PostNormConfig),
        "feed_forward": (DenseConfig, GatedConfig),
    },
    norms=(LayerNormConfig, RMSNormConfig, NoNormConfig),
)


def unsupported_model_key(config: Any) -> str | None:
    """The first key of a model's configuration that the native backend does not support; None: there is none."""
    if type(config) is not TransformerConfig:
        return "kind"
    # query heads share no keys and values, and values are as wide as keys
    usual = {
        "num_kv_heads": config.num_kv_heads in (None, config.num_heads),
        "value_head_dim": config.heads.value_dim == config.heads.head_dim,
    }
    first = next((key for key, _ in SUPPORTED_MODELS.unsupported(config) if not usual.get(key)), None)
    if first is not None:
        return first
    feed_forward = cast(DenseConfig | GatedConfig, config.feed_forward)  # experts are refused above
    return None if feed_forward.activation.upper() in CONSTANTS else "feed_forward.activation"


CpuType = Literal["float32", "bf16", "int8"]
ComputeType = Literal["auto"] | CpuType


def cpu_compute_type(requested: ComputeType) -> CpuType:
    """The type on the CPU; `auto` is bf16 where the processor has instructions for it, else float32.

    MTKIT_NATIVE leaves only the instructions of the set that it names.
    """
    if requested != "auto":
        return requested
    chosen = chosen_instruction_set()
    return "bf16" if cpu_has_bf16(CPUINFO) and (chosen is None or "bf16" in chosen) else "float32"
