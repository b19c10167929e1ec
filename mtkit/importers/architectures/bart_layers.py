"""Layers of BART, Marian, M2M-100 and their descendants in Hugging Face's names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from mtkit.errors import DataError
from mtkit.importers.architectures.architecture import WeightNames
from mtkit.importers.foreign_folder import MAX_LAYERS, Fields, shown
from mtkit.layers.feed_forward.config import DenseConfig
from mtkit.layers.key_types import Activation

SHARED, OUTPUT, OUTPUT_BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
ENCODER, DECODER = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
# parts of a layer: ours -> theirs
SELF_ATTENTION = {
    "attention.query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.out": ("self_attn.out_proj",),
    "attention_residual.norm": ("self_attn_layer_norm",),
}
CROSS_ATTENTION = {
    "cross_attention.query": ("encoder_attn.q_proj",),
    "cross_attention.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross_attention.out": ("encoder_attn.out_proj",),
    "cross_attention_residual.norm": ("encoder_attn_layer_norm",),
}
FEED_FORWARD = {
    "feed_forward.inner": ("fc1",),
    "feed_forward.outer": ("fc2",),
    "feed_forward_residual.norm": ("final_layer_norm",),
}
LAYER = {
    "encoder": {**SELF_ATTENTION, **FEED_FORWARD},
    "decoder": {**SELF_ATTENTION, **CROSS_ATTENTION, **FEED_FORWARD},
}
# theirs -> ours; what they call gelu_new and others are approximations, which have no place here
ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}


def layer_weights(side: Literal["encoder", "decoder"], count: int) -> Iterator[WeightNames]:
    """The weights of the layers of a side."""
    for index in range(count):
        for ours, theirs in LAYER[side].items():
            for part in ("weight", "bias"):
                names = tuple(f"model.{side}.layers.{index}.{each}.{part}" for each in theirs)
                yield WeightNames(f"{side}.{index}.{ours}.{part}", names)


def transformer_keys(fields: Fields, *, scale_embedding: bool, activation: str) -> dict[str, Any]:
    """Keys of a TransformerConfig that all these architectures state; the arguments are the defaults of two of them.

    Raises:
        DataError: a value is missing, or mtkit does not compute it.
    """
    rates = {"dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0}
    return {
        "d_model": fields.count("d_model"),
        "d_ff": same_of_both_sides(fields, "ffn_dim"),
        "num_heads": same_of_both_sides(fields, "attention_heads"),
        "encoder_layers": fields.count("encoder_layers", MAX_LAYERS),
        "decoder_layers": fields.count("decoder_layers", MAX_LAYERS),
        **{key: float(fields.get(key, (float, int), rate)) for key, rate in rates.items()},
        "feed_forward": feed_forward(fields, activation),
        "scaled_embeddings": fields.get("scale_embedding", bool, scale_embedding),
    }


def feed_forward(fields: Fields, default: str) -> DenseConfig:
    """The feed-forward layer of config.json; DataError if mtkit has no such activation."""
    name = fields.get("activation_function", str, default)
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise DataError(f"{fields.path}: activation_function: {shown(name)}; mtkit has {known}")
    return DenseConfig(activation=ACTIVATIONS[name])


def same_of_both_sides(fields: Fields, key: str) -> int:
    """The number that a key states for encoder and decoder; DataError if they differ."""
    sides = [fields.count(f"{side}_{key}") for side in ("encoder", "decoder")]
    if sides[0] != sides[1]:
        raise DataError(
            f"{fields.path}: decoder_{key}: {sides[1]}, but encoder_{key} is {sides[0]}; they must be equal"
        )
    return sides[0]
