"""Span corruption: spans are replaced by sentinels, and the target lists the removed tokens."""

from __future__ import annotations

import numpy as np

from mtkit.corpus.noise.noise import NoisedBatch, NoiseVocab
from mtkit.corpus.noise.row_rng import IntArray, RowRandom
from mtkit.corpus.order.ragged import Ragged, lengths_to_offsets

_KEPT, _REMOVED = range(2)  # streams of random numbers


class SpanCorruption:
    """`a b c d e f` becomes `a <span0> d <span1>`, and the target `<span0> b c <span1> e f <span2>`.

    Raffel et al. 2020, sec. 3.1.4 and 3.3.4, https://arxiv.org/abs/1910.10683, with the lengths of their program: of n
    tokens round(noise_density · n) are removed, at least one, in round(removed / mean_span_length) spans. The removed
    and the remaining tokens are cut into the same number of parts, all ways equally likely; the parts alternate,
    beginning with a remaining one. There are fewer spans where sentinels, or remaining tokens between spans, would run
    out.
    """

    def __init__(self, vocab: NoiseVocab, *, noise_density: float, mean_span_length: float) -> None:
        self.vocab = vocab
        self.noise_density = noise_density
        self.mean_span_length = mean_span_length

    def __call__(self, rows: Ragged, rng: RowRandom) -> NoisedBatch:
        """See Noise."""
        lengths = rows.lengths
        num_removed, num_spans = self._span_counts(lengths)
        kept_lengths = rng.random_partition(lengths - num_removed, num_spans, _KEPT)  # [all spans]
        span_lengths = rng.random_partition(num_removed, num_spans, _REMOVED)  # [all spans]
        parts = np.stack([kept_lengths, span_lengths], 1).ravel()
        is_removed = np.repeat(np.arange(len(parts)) % 2 == 1, parts)  # [T]
        span_starts = lengths_to_offsets(parts)[1:-1:2]  # of the removed spans, among all tokens
        number = np.arange(len(span_starts)) - np.repeat(lengths_to_offsets(num_spans)[:-1], num_spans)  # in its row
        sentinels = self.vocab.sentinels[number]
        ids = rows.flat.astype(np.int64)
        removed_ids = ids[is_removed]
        # The first token of each span makes room for its sentinel; the others are dropped from the source.
        ids[span_starts] = sentinels
        is_removed[span_starts] = False
        src = Ragged(ids[~is_removed], lengths_to_offsets(lengths - num_removed + num_spans))
        has_text = lengths > 0
        ends = lengths_to_offsets(num_removed)[1:][has_text]
        final_sentinels = self.vocab.sentinels[num_spans[has_text]]
        # Where the end of a row and the start of the next coincide, np.insert puts the row's final sentinel first.
        where = np.concatenate([ends, lengths_to_offsets(span_lengths)[:-1]])
        tgt = np.insert(removed_ids, where, np.concatenate([final_sentinels, sentinels]))
        return NoisedBatch(src, Ragged(tgt, lengths_to_offsets(num_removed + num_spans + has_text)))

    def _span_counts(self, lengths: IntArray) -> tuple[IntArray, IntArray]:
        """The numbers of tokens to remove from rows of these lengths [R], and of spans to remove them in; [R] each."""
        removed = np.clip(np.rint(lengths * self.noise_density), 1, np.maximum(lengths - 2, 1)).astype(np.int64)
        max_spans = np.minimum(removed, np.maximum(lengths - removed - 1, 1))
        spans = np.clip(np.rint(removed / self.mean_span_length).astype(np.int64), 1, max_spans)
        has_text = lengths > 0
        return removed * has_text, np.minimum(spans, len(self.vocab.sentinels) - 1) * has_text
