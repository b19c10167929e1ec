"""Scheduled sampling where the model is sure of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Target
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.interface import TargetPieces
from mtkit.training.decoder_inputs.no_grad import aside
from mtkit.training.decoder_inputs.target_tokens import Places, states
from mtkit.training.decoder_inputs.token_sampler import choose_best

Probability = Annotated[float, Field(ge=0, le=1)]


class ConfidenceAware:
    """What the decoder reads depends on the probability that it gives the true piece after the true prefix.

    Liu et al. 2021, eq. 7 and 8, https://arxiv.org/abs/2107.10427: up to `golden` it reads the truth, up to `random`
    its own likeliest piece, above that a random piece (uniform over those that text consists of). Confidence is
    measured in a pass of its own, without gradient. A model that is not being trained reads the truth.

    Args:
        golden, random: the two thresholds.
        pieces: of the target side.
    """

    def __init__(self, golden: float, random: float, pieces: TargetPieces) -> None:
        self.golden = golden
        self.random = random
        self.pieces = pieces

    def set_update(self, update: int) -> None:
        """Nothing is scheduled: confidence grows by itself."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        if not model.training or batch.num_sentences == 0:
            return states(model, batch, batch.target)
        return states(model, batch, self.target(model, batch))

    @aside()
    def target(self, model: TranslationModel, batch: Batch) -> Target:
        """What the decoder reads."""
        places = Places.of(batch.target)
        if not places.column.numel():
            return batch.target
        hidden = model.hidden(batch.source, batch.target)  # [B, T, D]
        best = places.apply(model, hidden, choose_best)  # [M]
        truth = places.values(batch.target.ids)  # [M]
        confidence = places.apply(model, hidden, _probability, truth)  # [M]
        chance = torch.randint(self.pieces.first, self.pieces.size, truth.shape, device=truth.device)
        own = torch.where(confidence > self.random, chance, best)
        return places.read(batch.target, torch.where(confidence > self.golden, own, truth))


def _probability(logits: Tensor, ids: Tensor) -> Tensor:
    """Of ids [n] by logits [n, V]."""
    return logits.float().softmax(-1).gather(1, ids.unsqueeze(1)).squeeze(1)


@dataclass(frozen=True, kw_only=True)
class ConfidenceAwareConfig:
    """The decoder reads its own choice where it is sure of the truth (see ConfidenceAware); costs a forward."""

    kind: Literal["confidence_aware"] = "confidence_aware"
    golden: Probability = 0.9  # the paper's choice, sec. 4.2; up to this confidence the truth is read
    random: Probability = 0.95  # ibidem; above this a random piece is read

    def __post_init__(self) -> None:
        if self.random < self.golden:
            raise ValueError(f"random: {self.random} is below golden, {self.golden}; set it to that or above")

    def build(self, pieces: TargetPieces) -> ConfidenceAware:
        """The decoder input."""
        return ConfidenceAware(self.golden, self.random, pieces)
