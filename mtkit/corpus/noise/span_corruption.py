"""Removed spans, each marked by a sentinel; the target says what they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from mtkit.corpus.noise.noise import Noised, NoisePieces
from mtkit.corpus.noise.row_rng import Draws, Ints
from mtkit.corpus.order.ragged import Ragged, offsets_of

_KEPT, _REMOVED = range(2)  # streams of draws


class SpanNoise:
    """`a b c d e f` becomes `a <span0> d <span1>`, and the target `<span0> b c <span1> e f <span2>`.

    Raffel et al. 2020, sec. 3.1.4 and 3.3.4, https://arxiv.org/abs/1910.10683, with the lengths of their program:
    round(density · n) of n pieces are removed, at least one, in round(removed / mean_span) spans; the removed pieces
    and the kept ones are cut into as many parts, every way equally likely, and the two alternate from a kept part on.
    There are fewer spans where sentinels, or pieces to keep between them, would run out.
    """

    def __init__(self, pieces: NoisePieces, *, density: float, mean_span: float) -> None:
        self.pieces = pieces
        self.density = density
        self.mean_span = mean_span

    def __call__(self, rows: Ragged, draws: Draws) -> Noised:
        """See Noise."""
        lengths = rows.lengths
        removed, spans = self._counts(lengths)
        kept_parts = draws.parts(lengths - removed, spans, _KEPT)  # [all spans]
        removed_parts = draws.parts(removed, spans, _REMOVED)
        parts = np.stack([kept_parts, removed_parts], 1).ravel()
        is_removed = np.repeat(np.arange(len(parts)) % 2 == 1, parts)  # [T]
        begins = offsets_of(parts)[1:-1:2]  # of the removed spans, among all pieces
        number = np.arange(len(begins)) - np.repeat(offsets_of(spans)[:-1], spans)  # of a span in its row
        sentinels = self.pieces.spans[number]
        ids = rows.flat.astype(np.int64)
        said = ids[is_removed]
        ids[begins] = sentinels
        is_removed[begins] = False
        src = Ragged(ids[~is_removed], offsets_of(lengths - removed + spans))
        has_text = lengths > 0
        ends, finals = offsets_of(removed)[1:][has_text], self.pieces.spans[spans[has_text]]
        where = np.concatenate([ends, offsets_of(removed_parts)[:-1]])  # a row's end comes before the next one's begin
        tgt = np.insert(said, where, np.concatenate([finals, sentinels]))
        return Noised(src, Ragged(tgt, offsets_of(removed + spans + has_text)))

    def _counts(self, lengths: Ints) -> tuple[Ints, Ints]:
        """How many pieces to remove from rows of these lengths [R], and in how many spans; [R] each."""
        removed = np.clip(np.rint(lengths * self.density), 1, np.maximum(lengths - 2, 1)).astype(np.int64)
        most = np.minimum(removed, np.maximum(lengths - removed - 1, 1))
        spans = np.clip(np.rint(removed / self.mean_span).astype(np.int64), 1, most)
        has_text = lengths > 0
        return removed * has_text, np.minimum(spans, len(self.pieces.spans) - 1) * has_text


@dataclass(frozen=True, kw_only=True)
class SpanNoiseConfig:
    """Remove spans and ask for them (see SpanNoise); short targets, so that an update is cheap."""

    kind: Literal["spans"] = "spans"
    density: Annotated[float, Field(gt=0, lt=1)] = 0.15  # of the pieces are removed; Raffel et al. 2020, table 6
    mean_span: Annotated[float, Field(ge=1)] = 3.0  # pieces; ibidem, table 7

    def build(self, pieces: NoisePieces) -> SpanNoise:
        """The noise."""
        return SpanNoise(pieces, density=self.density, mean_span=self.mean_span)
