"""Masked language modelling: the encoder predicts hidden tokens from their context."""

from __future__ import annotations

import numpy as np

from mtkit.corpus.noise.noise import NoisedBatch, NoiseVocab
from mtkit.corpus.noise.row_rng import RowRandom
from mtkit.corpus.order.ragged import Ragged

_CHOSEN, _ACTION, _REPLACEMENT = range(3)  # streams of random numbers


class MLMMasking:
    """BERT's masking: of the chosen tokens most become the mask, some a random token, and the rest stay.

    Devlin et al. 2019, sec. 3.1 and appendix A.1, https://arxiv.org/abs/1810.04805 (80, 10 and 10%). Of n tokens
    round(masking_rate · n) are chosen, at least one, all choices equally likely. Random tokens are uniform over those
    of text. The loss covers the chosen tokens.
    """

    def __init__(
        self, vocab: NoiseVocab, *, masking_rate: float, mask_replace_prob: float, random_replace_prob: float
    ) -> None:
        self.vocab = vocab
        self.masking_rate = masking_rate
        self.mask_replace_prob = mask_replace_prob
        self.random_replace_prob = random_replace_prob

    def __call__(self, rows: Ragged, rng: RowRandom) -> NoisedBatch:
        """See Noise; both sides have the same lengths."""
        lengths, text_ids = rows.lengths, self.vocab.text_ids
        counts = np.minimum(np.maximum(np.rint(lengths * self.masking_rate), 1), lengths).astype(np.int64)  # [R]
        chosen = rng.choose_k(lengths, counts, _CHOSEN)  # [T], as all below
        action = rng.uniform(lengths, _ACTION)
        others = text_ids[(rng.uniform(lengths, _REPLACEMENT) * len(text_ids)).astype(np.int64)]
        ids = np.where(chosen & (action < self.mask_replace_prob + self.random_replace_prob), others, rows.flat)
        ids[chosen & (action < self.mask_replace_prob)] = self.vocab.mask
        return NoisedBatch(Ragged(ids, rows.offsets), rows, Ragged(chosen, rows.offsets))
