"""Teacher forcing with noise: some of the words that the decoder reads are others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Target
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.interface import TargetPieces
from mtkit.training.decoder_inputs.target_tokens import Places, states


class SwitchOut:
    """In each sentence n of the pieces that the decoder reads are random ones, p(n) ~ exp(-n / temperature).

    Wang et al. 2018, sec. 3.1, https://arxiv.org/abs/1808.07512, here on what the decoder reads alone: labels and
    source stay. The n places are drawn without replacement, a sentence's first piece excepted; pieces are uniform over
    those that text consists of. A model that is not being trained reads the truth.

    Args:
        temperature: larger changes more; about half a piece a sentence at 1.
        pieces: of the target side.
    """

    def __init__(self, temperature: float, pieces: TargetPieces) -> None:
        self.temperature = temperature
        self.pieces = pieces

    def set_update(self, update: int) -> None:
        """Nothing changes in the course of training."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        target = self.target(batch.target) if model.training and batch.num_sentences else batch.target
        return states(model, batch, target)

    def target(self, target: Target) -> Target:
        """What the decoder reads."""
        places = Places.of(target)
        key = target.ids.new_full(target.ids.shape, 2.0, dtype=torch.float32)  # [B, T], above those of all places
        key = key.index_put((places.sentence, places.column), torch.rand_like(places.column, dtype=torch.float32))
        rank = key.argsort(1).argsort(1)  # [B, T]
        places = places.select(places.values(rank < self._counts(target).unsqueeze(1)))
        chance = torch.randint(self.pieces.first, self.pieces.size, places.column.shape, device=target.ids.device)
        return places.read(target, chance)

    def _counts(self, target: Target) -> Tensor:
        """How many pieces of each sentence to replace, [B]."""
        most = (target.real.sum(1, keepdim=True) - 1).clamp(min=0)  # [B, 1]
        counts = torch.arange(target.ids.size(1), device=target.ids.device)  # [T]
        probability = (-counts / self.temperature).exp() * (counts <= most)  # [B, T]
        return torch.multinomial(probability, 1).squeeze(1)


@dataclass(frozen=True, kw_only=True)
class SwitchOutConfig:
    """The decoder reads random pieces among the true ones (see SwitchOut)."""

    kind: Literal["switch_out"] = "switch_out"
    temperature: Annotated[float, Field(gt=0)] = 1.0  # larger changes more; half a piece a sentence

    def build(self, pieces: TargetPieces) -> SwitchOut:
        """The decoder input."""
        return SwitchOut(self.temperature, pieces)
