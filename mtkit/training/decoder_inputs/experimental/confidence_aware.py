"""Confidence-aware scheduled sampling: the decoder reads its own predictions where it is confident of the truth."""

from __future__ import annotations

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Target
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from mtkit.training.decoder_inputs.no_grad import no_grad_uncached
from mtkit.training.decoder_inputs.target_tokens import TargetTokens, scored_states
from mtkit.training.decoder_inputs.token_sampler import sample_argmax


class ConfidenceAware:
    """The choice of each input token depends on the probability of the true token after the true prefix.

    Liu et al. 2021, eq. 7 and 8, https://arxiv.org/abs/2107.10427: up to `golden` the decoder reads the truth, up to
    `random` its most probable token, above that a random token (uniform over those of text). The confidence is
    computed in a separate pass without gradient. In eval mode the decoder reads the truth.

    Args:
        golden, random: the two thresholds.
        vocab_ids: ids of the target vocabulary.
    """

    def __init__(self, golden: float, random: float, vocab_ids: TargetVocabIds) -> None:
        self.golden = golden
        self.random = random
        self.vocab_ids = vocab_ids

    def set_update(self, update: int) -> None:
        """Do nothing: there is no schedule, the confidence grows by itself."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        if not model.training or batch.num_sentences == 0:
            return scored_states(model, batch, batch.target)
        return scored_states(model, batch, self.target(model, batch))

    @no_grad_uncached()
    def target(self, model: TranslationModel, batch: Batch) -> Target:
        """The decoder input."""
        tokens = TargetTokens.of(batch.target)
        if not tokens.column.numel():
            return batch.target
        hidden = model.decode_states(batch.source, batch.target)  # [B, T, D]
        best = tokens.map_logits(model, hidden, sample_argmax)  # [M]
        truth = tokens.gather(batch.target.ids)  # [M]
        confidence = tokens.map_logits(model, hidden, _probability, truth)  # [M]
        noise = torch.randint(
            self.vocab_ids.first_text_id, self.vocab_ids.end_text_id, truth.shape, device=truth.device
        )
        replacement = torch.where(confidence > self.random, noise, best)
        return tokens.replace_in(batch.target, torch.where(confidence > self.golden, replacement, truth))


def _probability(logits: Tensor, ids: Tensor) -> Tensor:
    """The probability of ids [n] under logits [n, V]."""
    return logits.float().softmax(-1).gather(1, ids.unsqueeze(1)).squeeze(1)
