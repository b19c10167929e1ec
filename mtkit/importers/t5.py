"""T5 in the layout of Hugging Face: T5, mT5, Flan-T5, and MADLAD-400, whose sources begin with the target's language.

Raffel et al. 2020, https://arxiv.org/abs/1910.10683; version 1.1 and its descendants have a gated feed-forward layer
and an output projection of their own (Shazeer 2020, https://arxiv.org/abs/2002.05202).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import ClassVar

from mtkit.errors import DataError
from mtkit.importers.architecture import ForeignArchitecture, WeightNames, require
from mtkit.importers.foreign_folder import MAX_LAYERS, Fields, ForeignFolder, shown
from mtkit.importers.vocabulary import ForeignTokenizers, LanguagePair, read_prefixed_tokenizers
from mtkit.layers.activations import FROM_HUGGINGFACE
from mtkit.layers.config import DenseConfig, GatedConfig, PreNormConfig, RMSNormConfig
from mtkit.layers.variants.config import T5BiasConfig
from mtkit.model_folder.foreign_names import T5_LAYER
from mtkit.models.transformer.config import TransformerConfig

SHARED, OUTPUT = "shared.weight", "lm_head.weight"
COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


class T5(ForeignArchitecture[TransformerConfig]):
    """RMS norms before sublayers, bucketed relative positions, no biases, and products that are not scaled."""

    name: ClassVar[str] = "t5"
    description: ClassVar[str] = "T5, Flan-T5 and MADLAD-400"
    # of the first conversions: the decoder reads no positions of the source
    unused_weights: ClassVar[frozenset[str]] = frozenset(
        {*COPIES, "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"}
    )
    scales_output: ClassVar[bool] = True  # unless config.json states another value

    def config(self, fields: Fields) -> TransformerConfig:
        """See ForeignArchitecture."""
        require(fields, {"is_encoder_decoder": True, "is_decoder": False})
        projection = fields.get("feed_forward_proj", str, "relu")
        gate, _, name = projection.rpartition("-")
        # as in the package, whose "gated-gelu" is the approximation
        expected = {"dense_act_fn": "gelu_new" if projection == "gated-gelu" else name, "is_gated_act": bool(gate)}
        require(fields, expected)
        name = expected["dense_act_fn"]
        if gate not in ("", "gated") or name not in FROM_HUGGINGFACE:
            known = ", ".join(FROM_HUGGINGFACE)
            raise DataError(
                f"{fields.path}: feed_forward_proj: {shown(projection)}; mtkit has {known}, and gated- before them"
            )
        is_tied = fields.get("tie_word_embeddings", bool, True)
        is_scaled = self.scales_output and fields.get("scale_decoder_outputs", bool, is_tied)  # since transformers 5
        activation, layers = FROM_HUGGINGFACE[name], fields.count("num_layers", MAX_LAYERS)
        has_decoder_layers = fields.get("num_decoder_layers", int) is not None
        positions = T5BiasConfig(
            num_buckets=fields.get("relative_attention_num_buckets", int, 32),
            max_distance=fields.get("relative_attention_max_distance", int, 128),
        )
        return TransformerConfig(
            d_model=fields.count("d_model"),
            d_ff=fields.count("d_ff"),
            num_heads=fields.count("num_heads"),
            head_dim=fields.count("d_kv"),
            encoder_layers=layers,
            decoder_layers=fields.count("num_decoder_layers", MAX_LAYERS) if has_decoder_layers else layers,
            dropout=float(fields.get("dropout_rate", (float, int), 0.1)),
            residual=PreNormConfig(norm=RMSNormConfig(epsilon=fields.get("layer_norm_epsilon", float, 1e-6))),
            feed_forward=GatedConfig(activation=activation) if gate else DenseConfig(activation=activation),
            encoder_positions=positions,
            decoder_positions=positions,
            bias=False,
            scaled_attention=False,
            scaled_embeddings=False,
            # files of version 1.1 may have a projection of their own beside tie_word_embeddings: true
            tied_embeddings="all" if is_scaled else "embeddings",
            scaled_output=is_scaled,
            output_bias=True,  # of the tokens that mtkit adds
        )

    def weights(self, config: TransformerConfig) -> Iterator[WeightNames]:
        """See ForeignArchitecture."""
        is_tied = config.tied_embeddings == "all"
        yield WeightNames("src_embedding.table.weight", (SHARED,), instead=(*COPIES, OUTPUT))
        if not is_tied:
            yield WeightNames("output.weight", (OUTPUT,), instead=(SHARED, *COPIES))
        yield WeightNames("output.bias", ())
        for side, count in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
            bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            yield WeightNames(f"{side}.0.attention.position.table.weight", (bias,))
            yield WeightNames(f"{side}_norm.weight", (f"{side}.final_layer_norm.weight",))
            other = "inner" if isinstance(config.feed_forward, GatedConfig) else "gate_value"
            for index, (ours, theirs) in product(range(count), T5_LAYER[side].items()):
                if ours != f"feed_forward.{other}":
                    names = tuple(f"{side}.block.{index}.{each}.weight" for each in theirs)
                    yield WeightNames(f"{side}.{index}.{ours}.weight", names)

    def tokenizers(self, folder: ForeignFolder, fields: Fields, direction: LanguagePair) -> ForeignTokenizers:
        """See ForeignArchitecture."""
        return read_prefixed_tokenizers(folder, fields, direction, model="spiece.model", mark="<2{}>")

    def notes(self, fields: Fields, direction: LanguagePair) -> Iterator[str]:
        """See ForeignArchitecture."""
        tasks = fields.get("task_specific_params", dict, {})
        task = tasks.get(f"translation_{direction.src}_to_{direction.tgt}")
        if isinstance(task, dict) and isinstance(prefix := task.get("prefix"), str):
            yield f"task_specific_params: this direction needs translate --prefix {shown(prefix.strip())}"


class MT5(T5):
    """T5 of version 1.1 in many languages, whose output projection is never scaled."""

    name: ClassVar[str] = "mt5"
    description: ClassVar[str] = "mT5"
    scales_output: ClassVar[bool] = False
