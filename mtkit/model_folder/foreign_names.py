"""Names of the modules of layers in the package transformers, for the import of models and for adapters of peft.

A module here may be several there, whose weights follow each other along the first dimension, all of one size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

# BART and its descendants, such as Marian: modules of a layer, ours -> theirs
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
BART_LAYER = {
    "encoder": {**SELF_ATTENTION, **FEED_FORWARD},
    "decoder": {**SELF_ATTENTION, **CROSS_ATTENTION, **FEED_FORWARD},
}


def _t5_sublayer(number: int, attention: str, ours: str) -> dict[str, tuple[str, ...]]:
    """The names of an attention sublayer, which is the `number`-th of its layer."""
    begin = f"layer.{number}.{attention}"
    q, k, v = (f"{begin}.{each}" for each in "qkv")
    is_cross = ours == "cross_attention"
    projections = {f"{ours}.query": (q,), f"{ours}.key_value": (k, v)}
    return {
        **(projections if is_cross else {f"{ours}.query_key_value": (q, k, v)}),
        f"{ours}.out": (f"{begin}.o",),
        f"{ours}_residual.norm": (f"layer.{number}.layer_norm",),
    }


def _t5_feed_forward(number: int) -> dict[str, tuple[str, ...]]:
    """As `_t5_sublayer`; a layer has either `inner` or `gate_value`."""
    begin = f"layer.{number}.DenseReluDense"
    return {
        "feed_forward.inner": (f"{begin}.wi",),
        "feed_forward.gate_value": (f"{begin}.wi_0", f"{begin}.wi_1"),
        "feed_forward.outer": (f"{begin}.wo",),
        "feed_forward_residual.norm": (f"layer.{number}.layer_norm",),
    }


T5_LAYER = {
    "encoder": {**_t5_sublayer(0, "SelfAttention", "attention"), **_t5_feed_forward(1)},
    "decoder": {
        **_t5_sublayer(0, "SelfAttention", "attention"),
        **_t5_sublayer(1, "EncDecAttention", "cross_attention"),
        **_t5_feed_forward(2),
    },
}


class Part(NamedTuple):
    """The part of a module that is a module there: the `number`-th of `blocks` equal blocks of rows."""

    module: str
    number: int
    blocks: int


_MODULE = re.compile(r"(encoder|decoder)\.(\d+)\.(.+)")


def foreign_parts(modules: Iterable[str]) -> Mapping[str, Part]:
    """The parts of the modules of a model, by their names in each family of models of the package transformers."""
    parts: dict[str, Part] = {}
    for module in modules:
        if not (match := _MODULE.fullmatch(module)):
            continue
        side, index, ours = match.groups()
        for form, layer in (("model.{}.layers.{}.{}", BART_LAYER), ("{}.block.{}.{}", T5_LAYER)):
            theirs = layer[side].get(ours, ())
            for number, name in enumerate(theirs):
                parts[form.format(side, index, name)] = Part(module, number, len(theirs))
    return parts
