"""Joint language modelling of source and target, for decoder-only models."""

from __future__ import annotations

from mtkit.corpus.order.batch import Batch
from mtkit.models.decoder_only.model import DecoderOnly
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.chunked_loss import label_smoothed_loss


class JointLM:
    """Cross-entropy of the target tokens plus `source_weight` times that of the source tokens after the first.

    Gao et al. 2022, sec. 3 (https://arxiv.org/abs/2210.11807), train a decoder-only model on both sides. The source
    term is a sum too: each source token counts `source_weight` times as much as a target token.

    Args:
        smoothing: label smoothing of both sides.
        source_weight: weight of a source token relative to a target token.
    """

    def __init__(self, smoothing: float, source_weight: float) -> None:
        self.smoothing = smoothing
        self.source_weight = source_weight

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over both sides; `tokens` counts the target only, and `source_loss` is logged.

        Raises:
            ValueError: the model is not decoder-only.
        """
        if not isinstance(model, DecoderOnly):
            raise ValueError(f"joint_lm needs a decoder-only model, this is a {type(model).__name__}")
        source, target = model.forward_both(batch.source, batch.target)  # [B, S, D], [B, T, D]
        weight, bias = model.output.weight, model.output.bias
        labels = batch.labels[batch.loss_mask]  # [N]
        loss = label_smoothed_loss(target[batch.loss_mask], weight, bias, labels, smoothing=self.smoothing)
        ids, real = batch.source.ids, batch.source.real
        has_next = real[:, :-1] & real[:, 1:]  # [B, S - 1], a token that another one follows
        source_loss = label_smoothed_loss(
            source[:, :-1][has_next], weight, bias, ids[:, 1:][has_next], smoothing=self.smoothing
        )
        return Losses(loss + self.source_weight * source_loss, labels.numel(), {"source_loss": source_loss.detach()})

    def set_update(self, update: int) -> None:
        """Do nothing: the objective is the same at every update."""
