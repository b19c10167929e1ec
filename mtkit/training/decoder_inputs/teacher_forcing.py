"""Teacher forcing: the decoder reads the true tokens."""

from __future__ import annotations

from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.config import TeacherForcingConfig
from mtkit.training.decoder_inputs.interface import DecoderInput, TargetVocabIds, scored_states


class TeacherForcing(DecoderInput):
    """The decoder reads the true tokens. Williams & Zipser 1989."""

    def __init__(self, config: TeacherForcingConfig | None = None, vocab_ids: TargetVocabIds | None = None) -> None:
        """Ignore both: nothing can be set."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        return scored_states(model, batch, batch.target)
