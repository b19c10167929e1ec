"""Filters of pairs that are no translations, by scores of a lexicon of the text, or of two models."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.filters.config import CrossEntropyFilterConfig, LexiconFilterConfig
from mtkit.corpus.filters.filter import Context, Fault, Filter, PairBlock
from mtkit.corpus.sentence_alignment import LineScorer, TokenSide

MIN_PAIRS = 2000  # of 150 pairs of Japanese, 11% were taken for noise, of 2,000 pairs 0.2%
_SHIFTS = 4  # each line of the sample is also scored with as many other lines
# Shares of the random pairs, at whose scores the share of noise is estimated. The lowest scores of noise are higher
# than those of other random pairs, since its words are known to have no translations opposite.
_TAIL = np.linspace(0.5, 0.95, 46)


class LexiconFilter(Filter):
    """Pairs that are two random lines rather than translations, by lexicons of both directions and by their lengths.

    Lexicons of the sample (IBM Model 1) score its pairs and random pairs of its lines. The share of noise in the text
    is the smallest ratio of the two distributions, at any score: a text without pairs that score like most random ones
    has none. A pair has the fault if, with that share, it is more probably random than `min_noise`. A pair of the
    sample is scored by the lexicon of the other half. Texts of less than MIN_PAIRS are not judged.
    """

    def __init__(self, config: LexiconFilterConfig) -> None:
        self._min_noise = config.min_noise
        self._scorers: list[LineScorer] = []
        self._sampled: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._limit = -np.inf  # highest score of a fault

    def learn(self, sample: PairBlock, context: Context) -> None:
        """Learn the lexicons, and the score up to which pairs are noise."""
        if len(sample) < MIN_PAIRS:
            return
        src, tgt = sample.token_sides
        self._scorers, self._sampled = [LineScorer(src, tgt), LineScorer(tgt, src)], sample.numbers
        lines = np.arange(len(sample))
        observed = np.sort(self._nats(src, tgt, lines, lines))
        # shifted by even numbers: both lines of a random pair are then of the half that its lexicon has not seen
        others = [np.roll(lines, 2 * (number * len(lines) // (2 * _SHIFTS + 2))) for number in range(1, _SHIFTS + 1)]
        random = np.sort(np.concatenate([self._nats(src, tgt.take(rows), lines, rows) for rows in others]))
        noise = (_share_below(observed, each := np.quantile(random, _TAIL)) / _share_below(random, each)).min()
        gain = noise / self._min_noise * _share_below(random, observed) - _share_below(observed, observed)
        if gain.max() > 0:
            self._limit = float(observed[gain.argmax()])

    def find(self, block: PairBlock) -> Iterator[Fault]:
        """Pairs with low scores."""
        if not np.isfinite(self._limit):
            return
        place = np.minimum(np.searchsorted(self._sampled, block.numbers), len(self._sampled) - 1)
        lines = np.where(self._sampled[place] == block.numbers, place, block.numbers)
        nats = self._nats(*block.token_sides, lines, lines)
        for row in np.flatnonzero(nats <= self._limit):
            yield Fault(int(row), 0, f"{nats[row]:.1f} nats")

    def _nats(
        self, src: TokenSide, tgt: TokenSide, src_lines: NDArray[np.int64], tgt_lines: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """[N] the sum of both directions."""
        forward, backward = self._scorers
        return forward.opposite(src, tgt, src_lines, np.inf) + backward.opposite(tgt, src, tgt_lines, np.inf)


def _share_below(ordered: NDArray[np.float32], values: NDArray[np.floating]) -> NDArray[np.float64]:
    """[M] the share of ordered values that are at most each of M values."""
    return np.asarray(np.searchsorted(ordered, values, "right") / len(ordered))


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
