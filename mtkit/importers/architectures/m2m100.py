"""M2M-100 and NLLB in the layout of Hugging Face: one model for many languages, here with one direction."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from mtkit.importers.architectures.architecture import ForeignArchitecture, WeightNames, require
from mtkit.importers.architectures.bart_layers import DECODER, ENCODER, OUTPUT, SHARED, layer_weights, transformer_keys
from mtkit.importers.foreign_folder import Fields, ForeignFolder
from mtkit.importers.vocabulary import (
    SENTENCEPIECE,
    VOCABULARY,
    ForeignTokenizers,
    LanguagePair,
    listed_language_tokens,
    read_language_tokenizers,
    sentencepiece_language_tokens,
)
from mtkit.layers.norms.config import PreNormConfig
from mtkit.layers.positions.absolute_config import SinusoidalConfig
from mtkit.models.transformer.config import TransformerConfig

# codes of M2M-100's languages in the order of their tokens; Fan et al. 2020, table 1. https://arxiv.org/abs/2010.11125
LANGUAGES = tuple(
    re.findall(
        r"\w+",
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu "
        "hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt "
        "ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    )
)


class M2M100(ForeignArchitecture):
    """Pre-norm, sinusoids that begin with position 2, and tokens that name both languages."""

    name: ClassVar[str] = "m2m_100"
    description: ClassVar[str] = "M2M-100 and NLLB"

    def config(self, fields: Fields) -> TransformerConfig:
        """See ForeignArchitecture."""
        require(fields, {"is_encoder_decoder": True, "tie_word_embeddings": True})
        positions = SinusoidalConfig(layout="concatenated", offset=2, reaches_base=True)
        keys: dict[str, Any] = transformer_keys(fields, scale_embedding=True, activation="relu")
        return TransformerConfig(
            **keys,
            residual=PreNormConfig(),
            encoder_positions=positions,
            decoder_positions=positions,
            tied_embeddings="all",
            output_bias=True,
        )

    def weights(self, config: TransformerConfig) -> Iterator[WeightNames]:
        """See ForeignArchitecture."""
        yield WeightNames("src_embedding.table.weight", (SHARED,), instead=(ENCODER, DECODER, OUTPUT))
        for side, count in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
            yield from layer_weights(side, count)  # type: ignore[arg-type]
            for part in ("weight", "bias"):
                yield WeightNames(f"{side}_norm.{part}", (f"model.{side}.layer_norm.{part}",))

    def unused_weights(self, config: TransformerConfig) -> frozenset[str]:
        """See ForeignArchitecture."""
        positions = {f"model.{side}.embed_positions.weights" for side in ("encoder", "decoder")}
        return frozenset({SHARED, ENCODER, DECODER, OUTPUT, *positions})

    def tokenizers(self, folder: ForeignFolder, fields: Fields, direction: LanguagePair) -> ForeignTokenizers:
        """See ForeignArchitecture."""
        if folder.has(VOCABULARY):
            languages = listed_language_tokens(folder, LANGUAGES)
        else:  # NLLB
            languages = sentencepiece_language_tokens(folder, SENTENCEPIECE)
        return read_language_tokenizers(folder, fields, direction, model=SENTENCEPIECE, languages=languages)
