"""What decoder inputs and objectives need to know of the target vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import TranslationModel


class DecoderInput(Protocol):
    """Runs the decoder over a micro-batch, deciding what it reads."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """Decoder states [N, D] of the places that are scored, sentence by sentence from left to right."""
        ...

    def set_update(self, update: int) -> None:
        """Hear which update is about to be computed (1 is the first)."""
        ...


@dataclass(frozen=True)
class TargetPieces:
    """Ids of the target side.

    Attributes:
        size: V, all pieces.
        first: of those that text consists of; they are first ... size - 1.
        pad: fills a batch.
        unk: a piece that the vocabulary lacks.
        bos: what the decoder reads first.
        eos: ends a sentence.
    """

    size: int
    first: int
    pad: int
    unk: int
    bos: int
    eos: int
