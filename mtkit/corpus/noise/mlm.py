"""Masked language modelling: the encoder predicts hidden tokens from their context."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np

from mtkit.config import Limits, config
from mtkit.corpus.noise.noise import NoisedBatch, NoiseVocab
from mtkit.corpus.noise.row_rng import RowRandom
from mtkit.corpus.order.ragged import Ragged

_CHOSEN, _ACTION, _REPLACEMENT = range(3)  # streams of random numbers

Probability = Annotated[float, Limits(ge=0, le=1)]


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


@config
class MLMMaskingConfig:
    """Mask tokens (see MLMMasking); for training.objective.kind masked_lm."""

    kind: Literal["mlm"] = "mlm"
    trains_encoder_only: ClassVar[bool] = True
    has_source: ClassVar[bool] = True
    # Share of the tokens that are predicted. Default: BERT's.
    masking_rate: Annotated[float, Limits(gt=0, le=1)] = 0.15
    # Share of the predicted tokens that the mask token replaces. Default: BERT's.
    mask_replace_prob: Probability = 0.8
    # Share of the predicted tokens that a random token replaces; the others stay as they are. Default: BERT's.
    random_replace_prob: Probability = 0.1

    def __post_init__(self) -> None:
        if self.mask_replace_prob + self.random_replace_prob > 1:
            raise ValueError(
                f"random_replace_prob: {self.random_replace_prob} and mask_replace_prob {self.mask_replace_prob} sum "
                "to more than 1; lower one"
            )

    def build(self, vocab: NoiseVocab) -> MLMMasking:
        """The noise function."""
        return MLMMasking(
            vocab,
            masking_rate=self.masking_rate,
            mask_replace_prob=self.mask_replace_prob,
            random_replace_prob=self.random_replace_prob,
        )
