"""Model families: a batch -> decoder states (training), `start` and `step` (search).

interface      TranslationModel, the base of all models; decoder state and losses
config         ModelConfigBase, the base of a family's configuration
skip_init      models without random initialisation, and models with shapes only
embeddings     source, target and output embeddings, tied as the recipe says
transformer/   encoder-decoder Transformer
decoder_only/  one Transformer stack that reads the source and continues with the target
rnn/           recurrent models without attention, with Bahdanau's and with Luong's
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig

ModelConfig = Annotated[
    TransformerConfig | DecoderOnlyConfig | Seq2SeqRNNConfig | AttentionRNNConfig, Field(discriminator="kind")
]
