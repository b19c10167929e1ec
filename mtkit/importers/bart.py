"""BART and its descendants in the layout of Hugging Face: Marian, M2M-100 with NLLB, mBART and others.

Those without models of translation of their own (BART, Pegasus, Blenderbot) are read with the tokenizer of Marian, as
mtkit exports models that their classes compute.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from mtkit.errors import DataError
from mtkit.importers.architecture import ForeignArchitecture, WeightNames, require
from mtkit.importers.foreign_folder import (
    MAX_CARD,
    MAX_LAYERS,
    TOKENIZER_SETTINGS,
    Fields,
    ForeignFolder,
    shown,
)
from mtkit.importers.vocabulary import (
    VOCABULARY,
    ForeignTokenizers,
    LanguagePair,
    language_vocabulary,
    listed_vocabulary,
    read_language_tokenizers,
    read_mapped_tokenizers,
)
from mtkit.io.files import translate_read_errors
from mtkit.layers.activations import FROM_HUGGINGFACE
from mtkit.layers.config import DenseConfig, LearnedConfig, PostNormConfig, PreNormConfig, SinusoidalConfig
from mtkit.layers.kinds import PositionConfig
from mtkit.model_folder.foreign_names import BART_LAYER
from mtkit.models.transformer.config import TransformerConfig

SHARED, OUTPUT, OUTPUT_BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
ENCODER, DECODER = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
GUIDED = b"transformer-align"  # kind of a model of OPUS-MT with guided alignment, in its README and its name
MARIAN_MODELS, TGT_VOCABULARY = ("source.spm", "target.spm"), "target_vocab.json"
SENTENCEPIECE = "sentencepiece.bpe.model"  # of models that share one vocabulary
# keys of config.json that BART's descendants of transformers 2 and 3 have, and the values that are computed here
EARLY = {
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "normalize_before": False,
    "do_blenderbot_90_layernorm": False,
    "static_position_embeddings": True,
    "force_bos_token_to_be_generated": False,
}
POSITION_OFFSET = 2  # of BART and mBART
# codes of M2M-100's languages in the order of their tokens; Fan et al. 2020, table 1. https://arxiv.org/abs/2010.11125
LANGUAGES = tuple(
    re.findall(
        r"\w+",
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu "
        "hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt "
        "ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    )
)


class BartArchitecture(ForeignArchitecture[TransformerConfig]):
    """Encoder and decoder of BART's layers, and a bias of the output.

    Attributes:
        scales_embeddings, activation: values of keys that config.json omits.
        norms: norms of a side outside its layers, ours -> theirs.
        position_offset: rows at the beginning of a table of learned positions that are never read.
    """

    scales_embeddings: ClassVar[bool] = False
    activation: ClassVar[str] = "gelu"
    norms: ClassVar[Mapping[str, str]] = {}
    position_offset: ClassVar[int] = 0

    def config(self, fields: Fields) -> TransformerConfig:
        """Keys that all these architectures state, and those of this one."""
        require(fields, {"is_encoder_decoder": True, "is_decoder": False, "tie_word_embeddings": True})
        particular = self.particular_keys(fields)
        rates = {"dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0}
        keys: dict[str, Any] = {
            "d_model": fields.count("d_model"),
            **_of_both_sides(fields, "ffn_dim", "d_ff"),
            **_of_both_sides(fields, "attention_heads", "num_heads"),
            "encoder_layers": fields.count("encoder_layers", MAX_LAYERS),
            "decoder_layers": fields.count("decoder_layers", MAX_LAYERS),
            **{key: float(fields.get(key, (float, int), rate)) for key, rate in rates.items()},
        }
        name = fields.get("activation_function", str, self.activation)
        if name not in FROM_HUGGINGFACE:
            known = ", ".join(FROM_HUGGINGFACE)
            raise DataError(f"{fields.path}: activation_function: {shown(name)}; mtkit has {known}")
        return TransformerConfig(
            **keys,
            feed_forward=DenseConfig(activation=FROM_HUGGINGFACE[name]),
            scaled_embeddings=fields.get("scale_embedding", bool, self.scales_embeddings),
            **{"output_bias": True, "tied_embeddings": "all", **particular},
        )

    @abstractmethod
    def particular_keys(self, fields: Fields) -> dict[str, Any]:
        """Residual connections, positions, and tied embeddings that are not `all`; errors as `config`."""

    def weights(self, config: TransformerConfig) -> Iterator[WeightNames]:
        """See ForeignArchitecture."""
        if config.tied_embeddings == "all":
            yield WeightNames("src_embedding.table.weight", (SHARED,), instead=(ENCODER, DECODER, OUTPUT))
        else:
            yield WeightNames("src_embedding.table.weight", (ENCODER,))
            yield WeightNames("tgt_embedding.table.weight", (DECODER,), instead=(OUTPUT,))
        for side, embedding, count in (
            ("encoder", "src_embedding", config.encoder_layers),
            ("decoder", "tgt_embedding", config.decoder_layers),
        ):
            modules = {
                f"{side}.{index}.{ours}": tuple(f"layers.{index}.{each}" for each in theirs)
                for index in range(count)
                for ours, theirs in BART_LAYER[side].items()
            }
            modules |= {ours.format(side=side, embedding=embedding): (theirs,) for ours, theirs in self.norms.items()}
            if isinstance(config.encoder_positions, LearnedConfig):
                table = (f"model.{side}.embed_positions.weight",)
                yield WeightNames(f"{embedding}.position.table.weight", table, skipped=self.position_offset)
            for ours, theirs in modules.items():
                for kind in ("weight", "bias"):
                    yield WeightNames(f"{ours}.{kind}", tuple(f"model.{side}.{each}.{kind}" for each in theirs))
        if config.output_bias:
            yield WeightNames("output.bias", (OUTPUT_BIAS,), is_optional=True)

    def tokenizers(self, folder: ForeignFolder, fields: Fields, direction: LanguagePair) -> ForeignTokenizers:
        """Those of Marian; see ForeignArchitecture."""
        return read_mapped_tokenizers(
            folder,
            fields,
            models=MARIAN_MODELS,
            vocabularies=(VOCABULARY, VOCABULARY if _shares_embeddings(fields) else TGT_VOCABULARY),
            tag_marks=(">>", "<<"),
        )


class Marian(BartArchitecture):
    """Marian's Transformers, such as Helsinki-NLP's OPUS-MT.

    Post-norm, sinusoids whose sines come first, and decoding that begins with padding.
    """

    name: ClassVar[str] = "marian"
    description: ClassVar[str] = "Marian and OPUS-MT"
    unused_weights: ClassVar[frozenset[str]] = frozenset(
        {SHARED, "model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"}
    )

    def particular_keys(self, fields: Fields) -> dict[str, Any]:
        """See BartArchitecture."""
        require(fields, EARLY)
        return {
            **_both_positions(SinusoidalConfig(layout="concatenated")),
            "residual": PostNormConfig(),
            "tied_embeddings": "all" if _shares_embeddings(fields) else "target",
            "alignment_head": _alignment_head(fields),
        }


class Pegasus(BartArchitecture):
    """Pre-norm and sinusoids whose sines come first: the models that mtkit trains by default."""

    name: ClassVar[str] = "pegasus"
    description: ClassVar[str] = "Pegasus with the tokenizer of Marian"
    norms: ClassVar[Mapping[str, str]] = {"{side}_norm": "layer_norm"}
    unused_weights: ClassVar[frozenset[str]] = Marian.unused_weights

    def particular_keys(self, fields: Fields) -> dict[str, Any]:
        """See BartArchitecture."""
        require(fields, {"static_position_embeddings": True})
        return {**_both_positions(SinusoidalConfig(layout="concatenated")), "residual": PreNormConfig()}


class Blenderbot(BartArchitecture):
    """Pre-norm and learned positions."""

    name: ClassVar[str] = "blenderbot"
    description: ClassVar[str] = "Blenderbot with the tokenizer of Marian"
    norms: ClassVar[Mapping[str, str]] = {"{side}_norm": "layer_norm"}

    def particular_keys(self, fields: Fields) -> dict[str, Any]:
        """See BartArchitecture."""
        positions = LearnedConfig(max_length=fields.count("max_position_embeddings"))
        return {**_both_positions(positions), "residual": PreNormConfig()}


class Bart(BartArchitecture):
    """Post-norm, learned positions, and a norm after the embeddings."""

    name: ClassVar[str] = "bart"
    description: ClassVar[str] = "BART with the tokenizer of Marian"
    norms: ClassVar[Mapping[str, str]] = {"{embedding}.norm": "layernorm_embedding"}
    position_offset: ClassVar[int] = POSITION_OFFSET

    def particular_keys(self, fields: Fields) -> dict[str, Any]:
        """See BartArchitecture."""
        require(fields, {**EARLY, "normalize_embedding": True, "static_position_embeddings": False})
        positions = LearnedConfig(max_length=fields.count("max_position_embeddings"))
        return {**_both_positions(positions), "residual": PostNormConfig(), "embedding_norm": True}


def _both_positions(positions: PositionConfig) -> dict[str, Any]:
    return {"encoder_positions": positions, "decoder_positions": positions}


def _alignment_head(fields: Fields) -> list[int] | None:
    """The head with which Marian's guided alignment was learned, the first one of a layer; None without it.

    Neither config.json nor the weights say so. OPUS-MT's README names the kind `transformer-align`.
    """
    if (layer := fields.get("guided_alignment_layer", (int, type(None)), None)) is not None:
        return [layer, 0]
    readme = fields.path.parent / "README.md"
    if not readme.is_file():
        return None
    with translate_read_errors(readme), readme.open("rb") as file:
        is_guided = GUIDED in file.read(MAX_CARD)
    return [fields.count("decoder_layers", MAX_LAYERS) - 1, 0] if is_guided else None


def _shares_embeddings(fields: Fields) -> bool:
    return bool(fields.get("share_encoder_decoder_embeddings", bool, True))


class M2M100(BartArchitecture):
    """Pre-norm, sinusoids that begin after the id of padding, and tokens that name both languages."""

    name: ClassVar[str] = "m2m_100"
    description: ClassVar[str] = "M2M-100 and NLLB"
    scales_embeddings: ClassVar[bool] = True
    activation: ClassVar[str] = "relu"
    norms: ClassVar[Mapping[str, str]] = {"{side}_norm": "layer_norm"}
    unused_weights: ClassVar[frozenset[str]] = frozenset(
        {"model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights"}
    )

    def particular_keys(self, fields: Fields) -> dict[str, Any]:
        """See BartArchitecture."""
        require(fields, {"share_encoder_decoder_embeddings": True})
        offset = 1 + int(fields.get("pad_token_id", int, 1))
        positions = SinusoidalConfig(layout="concatenated", offset=offset, reaches_base=True)
        return {**_both_positions(positions), "residual": PreNormConfig()}

    def tokenizers(self, folder: ForeignFolder, fields: Fields, direction: LanguagePair) -> ForeignTokenizers:
        """See ForeignArchitecture."""
        if folder.has(VOCABULARY):
            vocabulary = listed_vocabulary(folder, SENTENCEPIECE, LANGUAGES)
            return read_language_tokenizers(folder, fields, direction, vocabulary)
        # NLLB, which wrote the language of a source after it in transformers before 4.28
        is_early = folder.optional_table(TOKENIZER_SETTINGS).get("legacy_behaviour", bool, False)
        vocabulary = language_vocabulary(folder, SENTENCEPIECE)
        return read_language_tokenizers(folder, fields, direction, vocabulary, ends_with_language=is_early)


class MBart(BartArchitecture):
    """Pre-norm, learned positions, a norm after the embeddings, and tokens that name both languages.

    mBART of 25 languages writes them after a source, and begins translations with theirs.
    """

    name: ClassVar[str] = "mbart"
    description: ClassVar[str] = "mBART of 25 and of 50 languages"
    norms: ClassVar[Mapping[str, str]] = {"{embedding}.norm": "layernorm_embedding", "{side}_norm": "layer_norm"}
    position_offset: ClassVar[int] = POSITION_OFFSET

    def particular_keys(self, fields: Fields) -> dict[str, Any]:
        """See BartArchitecture."""
        norms = dict.fromkeys(("normalize_embedding", "add_final_layer_norm", "normalize_before"), True)
        require(
            fields, {**EARLY, **norms, "static_position_embeddings": False, "share_encoder_decoder_embeddings": True}
        )
        positions = LearnedConfig(max_length=fields.count("max_position_embeddings"))
        return {**_both_positions(positions), "residual": PreNormConfig(), "embedding_norm": True}

    def tokenizers(self, folder: ForeignFolder, fields: Fields, direction: LanguagePair) -> ForeignTokenizers:
        """See ForeignArchitecture."""
        vocabulary = language_vocabulary(folder, SENTENCEPIECE)
        is_50 = fields.get("decoder_start_token_id", int) == fields.get("eos_token_id", int, 2)
        kind = folder.optional_table(TOKENIZER_SETTINGS).get("tokenizer_class", str, "")
        has_suffix = kind.startswith("MBartTokenizer") if kind.startswith("MBart") else not is_50
        if has_suffix:  # the first conversions state no token with which decoding begins: it is that of the language
            start = fields.get("decoder_start_token_id", int, fields.get("eos_token_id", int, 2))
            fields = replace(fields, values={**fields.values, "decoder_start_token_id": start})
        return read_language_tokenizers(
            folder,
            fields,
            direction,
            vocabulary,
            ends_with_language=has_suffix,
            starts_with_language=has_suffix,
        )


def _of_both_sides(fields: Fields, theirs: str, ours: str) -> dict[str, int]:
    """The number that a key states for the encoder, and for the decoder if it has another."""
    encoder, decoder = (fields.count(f"{side}_{theirs}") for side in ("encoder", "decoder"))
    return {ours: encoder} if encoder == decoder else {ours: encoder, f"decoder_{ours}": decoder}
