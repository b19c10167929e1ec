"""Classes of the package transformers that compute models of mtkit, and what keeps the others from being exported.

A class computes a model if its config.json, as the importer reads it, describes this model again: whatever a class does
not state, and every key and kind that is new, is refused until an importer reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mtkit.errors import DataError, UsageError
from mtkit.importers.architecture import ForeignArchitecture
from mtkit.importers.bart import M2M100, Bart, Blenderbot, Marian, MBart, Pegasus
from mtkit.importers.foreign_folder import Fields
from mtkit.importers.t5 import T5
from mtkit.layers.activations import ACTIVATIONS
from mtkit.layers.config import DenseConfig, GatedConfig, RMSNormConfig
from mtkit.layers.variants.config import T5BiasConfig
from mtkit.model_folder.config_file import CONFIG
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.transformer.config import TransformerConfig
from mtkit.recipe.paths import to_plain
from mtkit.recipe.sections import flatten

MIN_POSITIONS = 512  # of a table of sinusoids
WITHOUT_EFFECT = ("dropout", "attention_dropout", "activation_dropout", "layerdrop", "alignment_head")


@dataclass(frozen=True)
class HubClass:
    """A class of transformers.

    Attributes:
        name: of the class.
        architecture: the importer of its models.
    """

    name: str
    architecture: ForeignArchitecture[TransformerConfig]

    @property
    def has_biases(self) -> bool:
        """True if its linear layers have biases, which may be 0."""
        return not isinstance(self.architecture, T5)

    @property
    def has_output_bias(self) -> bool:
        """True if its output has a bias, which may be 0."""
        return type(self.architecture) not in (T5, M2M100)

    def settings(self, config: TransformerConfig, *, pad: int = 1, positions: int = MIN_POSITIONS) -> dict[str, Any]:
        """Keys of config.json for a model; `pad`: id of padding; `positions`: size of a table of sinusoids."""
        feed_forward, norm = config.feed_forward, config.residual.norm
        activation = feed_forward.activation if isinstance(feed_forward, DenseConfig | GatedConfig) else "relu"
        names = ACTIVATIONS[activation].huggingface
        common = {"architectures": [self.name], "model_type": self.architecture.name, "is_encoder_decoder": True}
        common |= {"d_model": config.d_model, "torch_dtype": "float32"}
        if not self.has_biases:
            places = config.encoder_positions
            places = places if isinstance(places, T5BiasConfig) else T5BiasConfig()
            return {
                **common,
                "d_ff": config.d_ff,
                "d_kv": config.heads.head_dim,
                "num_heads": config.num_heads,
                "num_layers": config.encoder_layers,
                "num_decoder_layers": config.decoder_layers,
                "dropout_rate": config.dropout,
                "feed_forward_proj": f"gated-{_gated(names)}" if isinstance(feed_forward, GatedConfig) else names[0],
                "layer_norm_epsilon": float((norm if isinstance(norm, RMSNormConfig) else RMSNormConfig()).epsilon),
                "relative_attention_num_buckets": places.num_buckets,
                "relative_attention_max_distance": places.max_distance,
                "tie_word_embeddings": config.scaled_output,  # before version 5, the one means the other
                "scale_decoder_outputs": config.scaled_output,
            }
        decoder, is_listed = config.decoder_side(), isinstance(self.architecture, PegasusOfFairseq)
        if type(self.architecture) is M2M100:
            common["pad_token_id"] = pad
        elif not isinstance(self.architecture, Blenderbot):
            common["static_position_embeddings"] = config.encoder_positions.length_limit is None and not is_listed
        return {
            **common,
            "encoder_layers": config.encoder_layers,
            "decoder_layers": config.decoder_layers,
            "encoder_ffn_dim": config.d_ff,
            "encoder_attention_heads": config.num_heads,
            "decoder_ffn_dim": decoder.d_ff,
            "decoder_attention_heads": decoder.num_heads,
            "activation_function": names[0],
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "activation_dropout": config.activation_dropout,
            "scale_embedding": config.scaled_embeddings,
            "share_encoder_decoder_embeddings": config.tied_embeddings == "all",
            "tie_word_embeddings": True,
            "max_position_embeddings": config.encoder_positions.length_limit or positions,
        }

    def computed(self, config: TransformerConfig, *, pad: int = 1) -> TransformerConfig:
        """The model that the class computes where it is given this one; DataError if it computes none like it."""
        return self.architecture.config(Fields(Path(CONFIG), self.settings(config, pad=pad)))

    def differences(self, config: TransformerConfig, *, has_bias: bool, pad: int) -> dict[str, tuple[Any, Any]]:
        """The keys that the class computes with another value, with both values, the model's first.

        Args:
            config: of the model.
            has_bias: whether the bias of its output is not 0.
            pad: id of padding.
        """
        ours, theirs = (self._normal(each) for each in (config, self.computed(config, pad=pad)))
        if has_bias and not self.has_output_bias:
            theirs["output_bias"] = "0 alone"
        keys = dict.fromkeys([*ours, *theirs])
        return {key: (ours.get(key), theirs.get(key)) for key in keys if ours.get(key) != theirs.get(key)}

    def _normal(self, config: TransformerConfig) -> dict[str, Any]:
        """The keys in one form of models that are computed alike, by reordered weights or by more that are 0."""
        decoder, default, plain = config.decoder_side(), type(config)(), dict(flatten(to_plain(config)))
        plain |= {key: vars(default)[key] for key in WITHOUT_EFFECT}
        plain |= {"decoder_d_ff": decoder.d_ff, "decoder_num_heads": decoder.num_heads, "output_bias": True}
        plain |= {"head_dim": config.heads.head_dim, "num_kv_heads": config.heads.num_kv_heads}
        if self.has_biases:
            plain["bias"] = True
        elif config.tied_embeddings == "all" and not config.scaled_output:
            plain["tied_embeddings"] = "embeddings"  # and a copy of them
        layouts = {key: plain.get(key) for key in ("encoder_positions.layout", "decoder_positions.layout")}
        if len(set(layouts.values())) == 1:
            plain = {key: value for key, value in plain.items() if key not in layouts}
        return plain


class PegasusOfFairseq(M2M100):
    """The model of M2M-100 with a bias of the output; the table of positions stands in the file of the weights."""

    name: ClassVar[str] = Pegasus.name
    unused_weights: ClassVar[frozenset[str]] = Pegasus.unused_weights


def _gated(names: tuple[str, ...]) -> str:
    """The name of an activation behind `gated-`: there, gelu is its approximation."""
    return "gelu" if "gelu_new" in names else names[0]


CLASSES = (
    HubClass("PegasusForConditionalGeneration", Pegasus()),
    HubClass("MarianMTModel", Marian()),
    HubClass("M2M100ForConditionalGeneration", M2M100()),
    HubClass("PegasusForConditionalGeneration", PegasusOfFairseq()),
    HubClass("MBartForConditionalGeneration", MBart()),
    HubClass("BlenderbotForConditionalGeneration", Blenderbot()),
    HubClass("BartForConditionalGeneration", Bart()),
    HubClass("T5ForConditionalGeneration", T5()),
)


def hub_class(config: ModelConfigBase, *, has_bias: bool = False, pad: int = 1) -> HubClass:
    """The class that computes a model; arguments as of `differences`.

    Raises:
        UsageError: none does; the message names the keys in which the nearest class differs, and its values.
    """
    if not isinstance(config, TransformerConfig):
        raise UsageError(f"model.kind: {config.kind}: not supported by Hugging Face export, which needs transformer")
    differences: dict[HubClass, Mapping[str, tuple[Any, Any]]] = {}
    for each in CLASSES:
        try:
            differences[each] = each.differences(config, has_bias=has_bias, pad=pad)
        except (DataError, ValueError):  # such as an activation that a class of T5 has no name for
            continue
        if not differences[each]:
            return each
    nearest = min(differences, key=lambda each: len(differences[each]))
    keys = differences[nearest]
    parts = [key.removesuffix("kind") for key in keys if key.endswith(".kind")]  # whose other keys follow from it
    raise UsageError(
        "\n".join(
            f"model.{key}: {ours}: not supported by Hugging Face export; {nearest.name} computes {theirs}, in which a "
            "model must be trained from the start"
            for key, (ours, theirs) in keys.items()
            if not any(key.startswith(part) and key != f"{part}kind" for part in parts)
        )
    )
