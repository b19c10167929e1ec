"""mBART of 50 languages in the layout of Hugging Face: one model for many languages, here with one direction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from mtkit.errors import DataError
from mtkit.importers.architectures.architecture import ForeignArchitecture, WeightNames, require
from mtkit.importers.architectures.bart_layers import DECODER, ENCODER, OUTPUT, SHARED, layer_weights, transformer_keys
from mtkit.importers.foreign_folder import Fields, ForeignFolder
from mtkit.importers.vocabulary import (
    SENTENCEPIECE,
    ForeignTokenizers,
    LanguagePair,
    read_language_tokenizers,
    sentencepiece_language_tokens,
)
from mtkit.layers.norms.config import PreNormConfig
from mtkit.layers.positions.absolute_config import LearnedConfig
from mtkit.models.transformer.config import TransformerConfig

POSITION_OFFSET = 2  # rows of the table of positions that are never read


class MBart(ForeignArchitecture):
    """Pre-norm, learned positions, a norm after the embeddings, and tokens that name both languages."""

    name: ClassVar[str] = "mbart"
    description: ClassVar[str] = "mBART of 50 languages"

    def config(self, fields: Fields) -> TransformerConfig:
        """See ForeignArchitecture."""
        require(fields, {"is_encoder_decoder": True, "tie_word_embeddings": True})
        if fields.get("decoder_start_token_id", int) != fields.get("eos_token_id", int, 2):
            raise DataError(
                f"{fields.path}: decoder_start_token_id is not the end of sentence, as in mBART of 25 languages, which "
                "writes languages after texts; mtkit imports that of 50"
            )
        positions = LearnedConfig(max_length=fields.count("max_position_embeddings"))
        keys: dict[str, Any] = transformer_keys(fields, scale_embedding=False, activation="gelu")
        return TransformerConfig(
            **keys,
            residual=PreNormConfig(),
            encoder_positions=positions,
            decoder_positions=positions,
            tied_embeddings="all",
            embedding_norm=True,
            output_bias=True,
        )

    def weights(self, config: TransformerConfig) -> Iterator[WeightNames]:
        """See ForeignArchitecture."""
        yield WeightNames("src_embedding.table.weight", (SHARED,), instead=(ENCODER, DECODER, OUTPUT))
        for side, prefix, count in (
            ("encoder", "src", config.encoder_layers),
            ("decoder", "tgt", config.decoder_layers),
        ):
            table = (f"model.{side}.embed_positions.weight",)
            yield WeightNames(f"{prefix}_embedding.position.table.weight", table, skipped=POSITION_OFFSET)
            yield from layer_weights(side, count)  # type: ignore[arg-type]
            for part in ("weight", "bias"):
                yield WeightNames(f"{prefix}_embedding.norm.{part}", (f"model.{side}.layernorm_embedding.{part}",))
                yield WeightNames(f"{side}_norm.{part}", (f"model.{side}.layer_norm.{part}",))

    def unused_weights(self, config: TransformerConfig) -> frozenset[str]:
        """See ForeignArchitecture."""
        return frozenset({SHARED, ENCODER, DECODER, OUTPUT})

    def tokenizers(self, folder: ForeignFolder, fields: Fields, direction: LanguagePair) -> ForeignTokenizers:
        """See ForeignArchitecture."""
        languages = sentencepiece_language_tokens(folder, SENTENCEPIECE)
        return read_language_tokenizers(folder, fields, direction, model=SENTENCEPIECE, languages=languages)
