"""Masked language modelling: the encoder predicts the tokens that noise has masked."""

from __future__ import annotations

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import Losses, TranslationModel
from mtkit.models.transformer.model import Transformer
from mtkit.training.chunked_loss import label_smoothed_loss


class MaskedLM:
    """Cross-entropy in nats of the chosen tokens, predicted from the encoder states at their positions.

    Devlin et al. 2019, sec. 3.1, task 1. https://arxiv.org/abs/1810.04805 Their dense layer between the states and the
    projection is omitted: the model's own output projection reads the states, so that all trained weights serve
    translation. The decoder is not trained.

    Args:
        smoothing: label smoothing, 0 <= smoothing < 1.
    """

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the positions of `loss_mask`; source and labels are aligned.

        Raises:
            ValueError: the model is no Transformer with an encoder, or source and labels have different lengths.
        """
        if not isinstance(model, Transformer):
            raise ValueError(f"masked_lm needs a Transformer with an encoder, this is a {type(model).__name__}")
        if batch.source.ids.shape != batch.labels.shape:
            raise ValueError(f"source {list(batch.source.ids.shape)} and labels {list(batch.labels.shape)} differ")
        hidden = model.encode(batch.source)[batch.loss_mask]  # [N, D]
        labels = batch.labels[batch.loss_mask]  # [N]
        weight, bias = model.output.weight, model.output.bias
        return Losses(label_smoothed_loss(hidden, weight, bias, labels, smoothing=self.smoothing), labels.numel())

    def set_update(self, update: int) -> None:
        """Do nothing: the objective is the same at every update."""
