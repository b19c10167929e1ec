"""An objective for decoders that read the source as text of their own: both sides are learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from mtkit.corpus.order.batch import Batch
from mtkit.models.decoder_only.model import DecoderOnly
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.chunked_loss import label_smoothed_loss
from mtkit.training.objectives.interface import Parts


class SourceAndTarget:
    """Nats of the true target pieces, and a share of those of the source pieces after the first.

    Gao et al. 2022, sec. 3 (https://arxiv.org/abs/2210.11807) train their decoder alone on both. The source's sum is
    not divided by its own length: it counts as that many further tokens, each with weight `source_weight`.

    Args:
        smoothing: label smoothing of both sides.
        source_weight: weight of a source token beside a target token.
    """

    def __init__(self, smoothing: float, source_weight: float) -> None:
        self.smoothing = smoothing
        self.source_weight = source_weight

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over both sides; its tokens are the target's, and `source_loss` is for the log.

        Raises:
            ValueError: the model is not a decoder alone.
        """
        if not isinstance(model, DecoderOnly):
            raise ValueError(f"source_and_target needs a decoder-only model, this is a {type(model).__name__}")
        source, target = model.both(batch.source, batch.target)  # [B, S, D], [B, T, D]
        weight, bias = model.output.weight, model.output.bias
        labels = batch.labels[batch.scored]  # [N]
        loss = label_smoothed_loss(target[batch.scored], weight, bias, labels, smoothing=self.smoothing)
        ids, real = batch.source.ids, batch.source.real
        known = real[:, :-1] & real[:, 1:]  # [B, S - 1], a piece and one after it
        read = label_smoothed_loss(source[:, :-1][known], weight, bias, ids[:, 1:][known], smoothing=self.smoothing)
        return Losses(loss + self.source_weight * read, labels.numel(), {"source_loss": read.detach()})

    def set_update(self, update: int) -> None:
        """Nothing changes in the course of training."""


@dataclass(frozen=True, kw_only=True)
class SourceAndTargetConfig:
    """Cross-entropy of both sides, for a decoder-only model whose source is causal (see SourceAndTarget)."""

    kind: Literal["source_and_target"] = "source_and_target"
    source_weight: Annotated[float, Field(gt=0)] = 0.5  # of a source token beside a target token

    def build(self, parts: Parts) -> SourceAndTarget:
        """The objective."""
        return SourceAndTarget(parts.smoothing, self.source_weight)
