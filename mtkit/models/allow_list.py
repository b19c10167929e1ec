"""Allow lists of Transformers, for programs that compute some kinds of their parts: exporters and the fast road.

A new kind of position encoding, norm or attention, and a new key with another value than its default, are refused until
a program lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, fields
from typing import Any

from mtkit.layers.norms.config import LayerNormConfig, RMSNormConfig
from mtkit.models.transformer.config import TransformerConfig

# Keys that every program computes with any value, or that matter in training only.
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
class AllowList:
    """The Transformers that a program computes; a key that is in neither list must have its default value.

    Attributes:
        any_value: keys with any value.
        kinds: of the parts of a model, by key.
        norms: of the residual connections.
    """

    any_value: Set[str]
    kinds: Mapping[str, tuple[type[Any], ...]]
    norms: tuple[type[Any], ...] = (LayerNormConfig, RMSNormConfig)

    def unsupported(self, config: TransformerConfig) -> Iterator[tuple[str, Any]]:
        """Yield the keys that the program does not compute, and their values or kinds."""
        default = TransformerConfig()
        for name in (field.name for field in fields(config)):
            value = vars(config)[name]
            if name in self.kinds:
                if type(value) not in self.kinds[name]:  # a kind derived from a supported one may compute otherwise
                    yield f"{name}.kind", value.kind
                elif name == "residual" and type(value.norm) not in self.norms:
                    yield f"{name}.norm.kind", value.norm.kind
            elif name not in self.any_value and value != vars(default)[name]:
                yield name, value
