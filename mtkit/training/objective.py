"""What is minimised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from mtkit.corpus.order.batch import Batch, Source
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.decoder_input import DecoderInput
from mtkit.training.loss import label_smoothed_loss
from mtkit.training.pieces import TargetPieces

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


@dataclass(frozen=True, kw_only=True)
class CrossEntropyConfig:
    """Label-smoothed cross-entropy (see CrossEntropy); smoothing is `training.label_smoothing`."""

    kind: Literal["cross_entropy"] = "cross_entropy"

    def build(self, parts: Parts) -> CrossEntropy:
        """The objective."""
        return CrossEntropy(parts.decoder_input, parts.smoothing)


class CrossEntropy:
    """Nats of the true pieces, given what `decoder_input` lets the decoder read.

    Args:
        decoder_input: gives the hidden states [N, D] of the N scored positions.
        smoothing: label smoothing, 0 <= smoothing < 1; 0 gives the nll that validation reports.
    """

    def __init__(self, decoder_input: DecoderInput, smoothing: float) -> None:
        self.decoder_input = decoder_input
        self.smoothing = smoothing

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the scored positions."""
        hidden = self.decoder_input(model, batch)  # [N, D]
        target = batch.labels[batch.scored]  # [N]
        weight, bias = model.output.weight, model.output.bias
        return Losses(label_smoothed_loss(hidden, weight, bias, target, smoothing=self.smoothing), target.numel())

    def set_update(self, update: int) -> None:
        """Tell the decoder input, whose sampling rate may depend on it."""
        self.decoder_input.set_update(update)
