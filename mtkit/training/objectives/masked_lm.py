"""An objective for the encoder alone: the pieces that noise has hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import Losses, TranslationModel
from mtkit.models.transformer.model import Transformer
from mtkit.training.chunked_loss import label_smoothed_loss
from mtkit.training.objectives.interface import Parts


class MaskedLanguageModel:
    """Nats of the chosen pieces, from the encoder's states at their places.

    Devlin et al. 2019, sec. 3.1, task 1. https://arxiv.org/abs/1810.04805 Their layer between states and projection is
    left out: the model's own projection reads the states, so that nothing is learned that translation has no use for.
    The decoder has no part in it and stays as it was.

    Args:
        smoothing: label smoothing, 0 <= smoothing < 1.
    """

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the scored positions; labels and source stand side by side.

        Raises:
            ValueError: the model has no encoder of states, or source and labels have different lengths.
        """
        if not isinstance(model, Transformer):
            raise ValueError(
                f"masked_language_model needs a Transformer with an encoder, this is a {type(model).__name__}"
            )
        if batch.source.ids.shape != batch.labels.shape:
            raise ValueError(f"{list(batch.source.ids.shape)} pieces have {list(batch.labels.shape)} labels")
        hidden = model.encode(batch.source)[batch.scored]  # [N, D]
        labels = batch.labels[batch.scored]  # [N]
        weight, bias = model.output.weight, model.output.bias
        return Losses(label_smoothed_loss(hidden, weight, bias, labels, smoothing=self.smoothing), labels.numel())

    def set_update(self, update: int) -> None:
        """Nothing changes in the course of training."""


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelConfig:
    """Learn the encoder from masked text (see MaskedLanguageModel); needs corpus.noise.kind masks."""

    kind: Literal["masked_language_model"] = "masked_language_model"

    def build(self, parts: Parts) -> MaskedLanguageModel:
        """The objective."""
        return MaskedLanguageModel(parts.smoothing)
