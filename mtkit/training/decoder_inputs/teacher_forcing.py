"""TODO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.interface import TargetPieces


class TeacherForcing:
    """The decoder reads the truth. Williams & Zipser 1989."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        return model.hidden(batch.source, batch.target)[batch.scored]

    def set_update(self, update: int) -> None:
        """Nothing changes in the course of training."""


@dataclass(frozen=True, kw_only=True)
class TeacherForcingConfig:
    """The decoder reads the truth (see TeacherForcing)."""

    kind: Literal["teacher_forcing"] = "teacher_forcing"

    def build(self, pieces: TargetPieces) -> TeacherForcing:
        """The decoder input."""
        return TeacherForcing()
