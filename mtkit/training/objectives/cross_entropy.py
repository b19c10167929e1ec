"""Label-smoothed cross-entropy that never holds the logits of all positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.chunked_loss import label_smoothed_loss
from mtkit.training.decoder_inputs.interface import DecoderInput
from mtkit.training.objectives.interface import Parts


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
