"""Language modelling: the source is empty, and the target is the whole text."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from mtkit.config import config
from mtkit.corpus.noise.noise import NoisedBatch, NoiseVocab
from mtkit.corpus.noise.row_rng import RowRandom
from mtkit.corpus.order.ragged import Ragged


class EmptySource:
    """Sources without tokens: each text is predicted from its own beginning alone.

    A model that is trained on such text only is a language model. Together with sentence pairs these are the dummy
    sources of Sennrich et al. 2016, sec. 3.1, https://arxiv.org/abs/1511.06709
    """

    def __call__(self, rows: Ragged, rng: RowRandom) -> NoisedBatch:
        """See Noise."""
        return NoisedBatch(Ragged(rows.flat[:0], np.zeros(len(rows) + 1, dtype=np.int64)), rows)


@config
class LanguageModelConfig:
    """Predict each text from an empty source (see EmptySource); a language model if all training text is such text."""

    kind: Literal["language_model"] = "language_model"
    trains_encoder_only: ClassVar[bool] = False
    has_source: ClassVar[bool] = False

    def build(self, vocab: NoiseVocab) -> EmptySource:
        """The noise function."""
        return EmptySource()
