"""The union of model families that a recipe can name; a family's configuration is in its folder."""

from __future__ import annotations

from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig

ModelConfig = TransformerConfig | DecoderOnlyConfig | Seq2SeqRNNConfig | AttentionRNNConfig
