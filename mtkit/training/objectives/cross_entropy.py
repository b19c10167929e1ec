"""Label-smoothed cross-entropy, computed in chunks of positions."""

from __future__ import annotations

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.chunked_loss import label_smoothed_loss
from mtkit.training.decoder_inputs.interface import DecoderInput


class CrossEntropy:
    """Label-smoothed cross-entropy in nats of the true tokens, given the tokens that the decoder reads.

    Args:
        decoder_input: returns the decoder states [N, D] of the N positions in the loss.
        smoothing: label smoothing, 0 <= smoothing < 1; 0 gives the nll that validation reports.
    """

    def __init__(self, decoder_input: DecoderInput, smoothing: float) -> None:
        self.decoder_input = decoder_input
        self.smoothing = smoothing

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the positions of `loss_mask`."""
        hidden = self.decoder_input(model, batch)  # [N, D]
        target = batch.labels[batch.loss_mask]  # [N]
        weight, bias = model.output.weight, model.output.bias
        return Losses(label_smoothed_loss(hidden, weight, bias, target, smoothing=self.smoothing), target.numel())

    def set_update(self, update: int) -> None:
        """Pass the update on to the decoder input, whose sampling rate may depend on it."""
        self.decoder_input.set_update(update)
