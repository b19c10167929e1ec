"""BART's noise: infilling, token masking, token deletion and sentence permutation; the target is the whole text."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.noise.noise import NoisedBatch, NoiseVocab
from mtkit.corpus.noise.row_rng import BoolArray, RowRandom, ragged_index
from mtkit.corpus.order.ragged import Ragged, lengths_to_offsets

_ORDER, _LENGTH, _GAP, _DELETED, _MASKED = range(5)  # streams of random numbers


class BartNoise:
    """Sentence permutation, text infilling, token deletion and token masking, in this order.

    Lewis et al. 2020, sec. 2.2, https://arxiv.org/abs/1910.13461. Each span is replaced by one mask. Span lengths are
    Poisson distributed; a span of length 0 inserts a mask. Exactly round(infilling_rate · n) tokens are removed: the
    last span is cut to fit. At most that many spans are drawn, and the last one allowed takes all that is left, so that
    a sentence never gets longer. All arrangements of the spans among the remaining tokens are equally likely.
    """

    def __init__(
        self,
        vocab: NoiseVocab,
        *,
        infilling_rate: float,
        mean_span_length: float,
        masking_rate: float,
        deletion_rate: float,
        permute_sentences: bool,
    ) -> None:
        self.vocab = vocab
        self.infilling_rate, self.mean_span_length = infilling_rate, mean_span_length
        self.masking_rate, self.deletion_rate = masking_rate, deletion_rate
        self.permute_sentences = permute_sentences

    def __call__(self, rows: Ragged, rng: RowRandom) -> NoisedBatch:
        """See Noise."""
        src = Ragged(rows.flat.astype(np.int64), rows.offsets)
        if self.permute_sentences:
            src = self._shuffle_sentences(src, rng)
        if self.infilling_rate:
            src = self._infill(src, rng)
        if self.deletion_rate:
            src = _select(src, rng.uniform(src.lengths, _DELETED) >= self.deletion_rate)
        if self.masking_rate:
            masked = rng.uniform(src.lengths, _MASKED) < self.masking_rate
            src = Ragged(np.where(masked, self.vocab.mask, src.flat), src.offsets)
        return NoisedBatch(src, rows)

    def _shuffle_sentences(self, rows: Ragged, rng: RowRandom) -> Ragged:
        """Shuffle the sentences of each line; a sentence ends where a word starts after an end mark."""
        row, column = ragged_index(rows.lengths)
        ids = rows.flat
        starts_sentence = column > 0  # the second and further sentences of each line
        starts_sentence[1:] &= self.vocab.ends_sentence[ids[:-1]] & self.vocab.starts_word[ids[1:]]
        counts = np.bincount(row[starts_sentence], minlength=len(rows)) + (rows.lengths > 0)  # [R] sentences
        sentence = np.cumsum(starts_sentence | (column == 0)) - 1  # [T]
        key = rng.uniform(counts, _ORDER)[sentence]
        return Ragged(ids[np.lexsort((column, key, row))], rows.offsets)

    def _infill(self, rows: Ragged, rng: RowRandom) -> Ragged:
        lengths = rows.lengths
        num_removed = np.rint(lengths * self.infilling_rate).astype(np.int64)  # [R]
        # One length is drawn for each token to remove: with at least one token a span, no row needs more spans.
        row, column = ragged_index(num_removed)
        span = np.searchsorted(self._poisson_cdf, rng.uniform(num_removed, _LENGTH), side="right")
        total = np.cumsum(span) - lengths_to_offsets(np.bincount(row, span, len(rows)).astype(np.int64))[:-1][row]
        before = total - span  # tokens of the row that the earlier spans removed
        left = num_removed[row] - before
        span = np.where(column == num_removed[row] - 1, left, np.minimum(span, left))
        is_used = left > 0  # spans drawn after all tokens are removed do not exist
        num_spans = np.bincount(row[is_used], minlength=len(rows))  # [R]
        # A corrupted row is a sequence of remaining tokens and masks; choosing the places of the masks in it makes all
        # arrangements equally likely.
        new_lengths = lengths - num_removed + num_spans  # [R]
        is_mask = rng.choose_k(new_lengths, num_spans, _GAP)
        width = np.ones(len(is_mask), dtype=np.int64)  # tokens of the original that each element stands for
        width[is_mask] = span[is_used]
        # The mask is appended because a span of length 0 at the very end starts behind the last token.
        ids = np.append(rows.flat, self.vocab.mask)[lengths_to_offsets(width)[:-1]]
        ids[is_mask] = self.vocab.mask
        return Ragged(ids, lengths_to_offsets(new_lengths))

    @cached_property
    def _poisson_cdf(self) -> NDArray[np.float64]:
        """P(length <= k) for k = 0, 1, ..., up to 20 standard deviations above the mean."""
        mean = self.mean_span_length
        counts = range(int(mean + 20 * math.sqrt(mean) + 20))
        return np.cumsum([math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in counts])


def _select(rows: Ragged, selected: BoolArray) -> Ragged:
    """The elements at which `selected` [T] is True."""
    lengths = np.bincount(ragged_index(rows.lengths).row[selected], minlength=len(rows))
    return Ragged(rows.flat[selected], lengths_to_offsets(lengths))
