"""Word dropout on the decoder input: some tokens are replaced by unk."""

from __future__ import annotations

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.target_tokens import TargetTokens, scored_states


class WordDropout:
    """Each token of the decoder input except a sentence's first is replaced by `unk` with probability `rate`.

    Bowman et al. 2016, sec. 3.1, https://arxiv.org/abs/1511.06349. In eval mode the decoder reads the truth.

    Args:
        rate: the probability.
        unk: id of the unknown token.
    """

    def __init__(self, rate: float, unk: int) -> None:
        self.rate = rate
        self.unk = unk

    def set_update(self, update: int) -> None:
        """Do nothing: the rate is the same at every update."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        if not model.training:
            return scored_states(model, batch, batch.target)
        tokens = TargetTokens.of(batch.target)
        tokens = tokens.select(torch.rand(tokens.column.shape, device=tokens.column.device) < self.rate)
        return scored_states(model, batch, tokens.replace_in(batch.target, torch.full_like(tokens.column, self.unk)))
