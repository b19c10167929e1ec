"""TODO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from mtkit.corpus.order.batch import Batch, Source
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.decoder_inputs.interface import DecoderInput, TargetPieces

RewardName = Literal["bleu", "chrf"]


class TrainingObjective(Protocol):
    """An objective that may change in the course of training."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The losses of one micro-batch; `sum` is what is minimised, `extra` is for the log."""
        ...

    def set_update(self, update: int) -> None:
        """Hear which update is about to be computed (1 is the first)."""
        ...


class Generation(Protocol):
    """Draws translations and judges them; handed in, as training knows neither search nor text."""

    def sample(
        self, model: TranslationModel, source: Source, *, count: int, temperature: float
    ) -> list[list[list[int]]]:
        """`count` translations of each sentence, drawn from the model: pieces without bos and eos."""
        ...

    def reward(self, name: RewardName, hyps: Sequence[Sequence[int]], ref: Sequence[int]) -> list[float]:
        """How good each translation of a sentence is, 0 to 1; pieces without bos and eos."""
        ...


@dataclass(frozen=True)
class Parts:
    """What objectives are built of, besides their own keys.

    Attributes:
        decoder_input: what the decoder reads.
        smoothing: label smoothing, 0 <= smoothing < 1.
        pieces: of the target side.
        generation: draws and judges translations.
    """

    decoder_input: DecoderInput
    smoothing: float
    pieces: TargetPieces
    generation: Generation
