"""Teacher forcing: the decoder reads the true tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.interface import DecoderInputConfigBase, TargetVocabIds


class TeacherForcing:
    """The decoder reads the true tokens. Williams & Zipser 1989."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        return model.decode_states(batch.source, batch.target)[batch.loss_mask]

    def set_update(self, update: int) -> None:
        """Do nothing: the input is the same at every update."""


@dataclass(frozen=True, kw_only=True)
class TeacherForcingConfig(DecoderInputConfigBase):
    """The decoder reads the true tokens (see TeacherForcing)."""

    kind: Literal["teacher_forcing"] = "teacher_forcing"

    def build(self, vocab_ids: TargetVocabIds) -> TeacherForcing:
        """The decoder input."""
        return TeacherForcing()
