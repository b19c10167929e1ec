"""Teacher forcing with holes: some of the words that the decoder reads are unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.interface import TargetPieces
from mtkit.training.decoder_inputs.target_tokens import Places, states


class WordDropout:
    """Each piece that the decoder reads is `unk` with a probability, its first one excepted.

    Bowman et al. 2016, sec. 3.1, https://arxiv.org/abs/1511.06349. A model that is not being trained reads the truth.

    Args:
        rate: the probability.
        unk: the id to read.
    """

    def __init__(self, rate: float, unk: int) -> None:
        self.rate = rate
        self.unk = unk

    def set_update(self, update: int) -> None:
        """Nothing changes in the course of training."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        if not model.training:
            return states(model, batch, batch.target)
        places = Places.of(batch.target)
        places = places.select(torch.rand(places.column.shape, device=places.column.device) < self.rate)
        return states(model, batch, places.read(batch.target, torch.full_like(places.column, self.unk)))


@dataclass(frozen=True, kw_only=True)
class WordDropoutConfig:
    """The decoder does not see some of the pieces before (see WordDropout)."""

    kind: Literal["word_dropout"] = "word_dropout"
    rate: Annotated[float, Field(ge=0, le=1)] = 0.1  # of the pieces

    def build(self, pieces: TargetPieces) -> WordDropout:
        """The decoder input."""
        return WordDropout(self.rate, pieces.unk)
