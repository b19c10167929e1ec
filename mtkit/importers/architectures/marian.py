"""Marian's Transformers in the layout of Hugging Face, such as Helsinki-NLP's OPUS-MT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from mtkit.importers.architectures.architecture import ForeignArchitecture, WeightNames, require
from mtkit.importers.architectures.bart_layers import DECODER, ENCODER, OUTPUT, SHARED, layer_weights, transformer_keys
from mtkit.importers.foreign_folder import Fields, ForeignFolder
from mtkit.importers.vocabulary import ForeignTokenizers, LanguagePair, VocabularyFiles, read_mapped_tokenizers
from mtkit.layers.norms.config import PostNormConfig
from mtkit.layers.positions.absolute_config import SinusoidalConfig
from mtkit.models.transformer.config import TransformerConfig


class Marian(ForeignArchitecture):
    """Post-norm, sinusoids whose sines come first, a bias of the output, and decoding that begins with padding."""

    name: ClassVar[str] = "marian"
    description: ClassVar[str] = "Marian and OPUS-MT"

    def config(self, fields: Fields) -> TransformerConfig:
        """See ForeignArchitecture."""
        require(fields, {"is_encoder_decoder": True, "tie_word_embeddings": True})
        is_shared = fields.get("share_encoder_decoder_embeddings", bool, True)
        positions = SinusoidalConfig(layout="concatenated")
        keys: dict[str, Any] = transformer_keys(fields, scale_embedding=False, activation="gelu")
        return TransformerConfig(
            **keys,
            residual=PostNormConfig(),
            encoder_positions=positions,
            decoder_positions=positions,
            tied_embeddings="all" if is_shared else "target",
            output_bias=True,
        )

    def weights(self, config: TransformerConfig) -> Iterator[WeightNames]:
        """See ForeignArchitecture."""
        if config.tied_embeddings == "all":
            yield WeightNames("src_embedding.table.weight", (SHARED,), instead=(ENCODER, DECODER, OUTPUT))
        else:
            yield WeightNames("src_embedding.table.weight", (ENCODER,))
            yield WeightNames("tgt_embedding.table.weight", (DECODER,), instead=(OUTPUT,))
        yield from layer_weights("encoder", config.encoder_layers)
        yield from layer_weights("decoder", config.decoder_layers)

    def unused_weights(self, config: TransformerConfig) -> frozenset[str]:
        """See ForeignArchitecture."""
        positions = {f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}
        return frozenset({SHARED, ENCODER, DECODER, OUTPUT, *positions})

    def tokenizers(self, folder: ForeignFolder, fields: Fields, direction: LanguagePair) -> ForeignTokenizers:
        """See ForeignArchitecture."""
        is_shared = fields.get("share_encoder_decoder_embeddings", bool, True)
        files = VocabularyFiles(
            src_model="source.spm",
            tgt_model="target.spm",
            src_vocabulary="vocab.json",
            tgt_vocabulary="vocab.json" if is_shared else "target_vocab.json",
            tag_begin=">>",
            tag_end="<<",
        )
        return read_mapped_tokenizers(folder, fields, files)
