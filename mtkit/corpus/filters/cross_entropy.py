"""Pairs that two models find improbable, or disagree about (dual conditional cross-entropy)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mtkit.corpus.filters.config import CrossEntropyFilterConfig
from mtkit.corpus.filters.filter import Context, Fault, Filter, PairBlock


class CrossEntropyFilter(Filter):
    """Pairs whose score exp(-(|H1 - H2| + (H1 + H2) / 2)) is low."""

    def __init__(self, config: CrossEntropyFilterConfig) -> None:
        self._config = config
        self._context = Context()

    def learn(self, sample: PairBlock, context: Context) -> None:
        """Take the function that scores pairs."""
        self._context = context

    def find(self, block: PairBlock) -> Iterator[Fault]:
        """Pairs with a low score.

        Raises:
            MissingInputError, DamagedError: a model is missing or damaged.
        """
        forward = np.array(self._context.cross_entropies(self._config.forward, block.src, block.tgt))
        backward = np.array(self._context.cross_entropies(self._config.backward, block.tgt, block.src))
        scores = np.exp(-(np.abs(forward - backward) + (forward + backward) / 2))
        for row in np.flatnonzero(scores < self._config.min_score):
            yield Fault(int(row), 0, f"score {scores[row]:.3f}")
