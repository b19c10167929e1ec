"""Which models CTranslate2 can hold, by the keys of the recipe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from mtkit.errors import UsageError
from mtkit.models.transformer.config import TransformerConfig
from mtkit.recipe.recipe import ModelConfig

# keys whose every value the export knows, or that do not matter once a model is trained
FREE = {
    "kind",
    "d_model",
    "d_ff",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "norm",
    "layer_drop",
    "encoder_layers",
    "decoder_layers",
    "encoder_sharing",
    "decoder_sharing",
    "tied_embeddings",
}
ALLOWED = {
    "feed_forward": {"dense", "gated"},
    "encoder_attention": {"full"},
    "decoder_attention": {"full"},
    "encoder_positions": {"sinusoidal", "learned", "none", "rope", "shaw", "t5"},
    "decoder_positions": {"sinusoidal", "learned", "none", "rope", "shaw", "t5", "alibi"},
}


def check(config: ModelConfig) -> TransformerConfig:
    """The configuration, if CTranslate2 can hold its model.

    Raises:
        UsageError: it cannot; names every key that is the reason.
    """
    if not isinstance(config, TransformerConfig):
        raise UsageError(f"model.kind: {config.kind}: CTranslate2 has no such model; it holds a transformer")
    faults = list(_faults(config))
    if faults:
        raise UsageError("\n".join(f"model.{fault}: CTranslate2 has nothing like this" for fault in faults))
    return config


def _faults(config: TransformerConfig) -> Iterator[str]:
    default = TransformerConfig()
    for name in (field.name for field in fields(config)):
        value = vars(config)[name]
        if name in ALLOWED:
            if value.kind not in ALLOWED[name]:
                yield f"{name}.kind: {value.kind}"
        elif name not in FREE and value != vars(default)[name]:
            yield f"{name}: {value}"
