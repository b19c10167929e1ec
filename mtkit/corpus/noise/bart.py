"""Text with gaps and out of order, to be written anew as a whole."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mtkit.corpus.noise.noise import Noised, NoisePieces
from mtkit.corpus.noise.row_rng import Draws, Flags, places
from mtkit.corpus.order.ragged import Ragged, offsets_of

_ORDER, _LENGTH, _GAP, _DELETED, _MASKED = range(5)  # streams of draws


Share = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True, kw_only=True)
class BartNoiseConfig:
    """Fill gaps and find the order again (see BartNoise); the target is the whole text."""

    kind: Literal["bart"] = "bart"
    infill: Share = 0.3  # of the pieces vanish in gaps; Lewis et al. 2020, sec. 5.1
    mean_span: Annotated[float, Field(gt=0, le=50)] = 3.0  # pieces a gap; ibidem, sec. 2.2
    mask: Share = 0.0  # of the pieces are masked one by one (token masking)
    delete: Share = 0.0  # of the pieces vanish without a trace (token deletion)
    permute_sentences: bool = True  # of lines with several

    def __post_init__(self) -> None:
        if not (self.infill or self.mask or self.delete or self.permute_sentences):
            raise ValueError("infill: nothing is disturbed, so that nothing is learned; set one of the shares above 0")

    def build(self, pieces: NoisePieces) -> BartNoise:
        """The noise."""
        return BartNoise(pieces, self)


class BartNoise:
    """Sentences in another order, spans replaced by one mask each, pieces deleted or masked: in this order.

    Lewis et al. 2020, sec. 2.2, https://arxiv.org/abs/1910.13461 Spans have Poisson lengths; one of length 0 is a mask
    put in. Exactly round(infill · n) pieces vanish in them: the last span is cut to fit, and that of the last draw
    there may be (one for each such piece) takes what is left, so that a sentence never grows. Where the gaps are is
    uniform over all arrangements of gaps among the pieces that stay.

    Args:
        pieces: of the vocabulary.
        config: the shares.
    """

    def __init__(self, pieces: NoisePieces, config: BartNoiseConfig) -> None:
        self.pieces = pieces
        self.config = config

    def __call__(self, rows: Ragged, draws: Draws) -> Noised:
        """See Noise."""
        config, left = self.config, Ragged(rows.flat.astype(np.int64), rows.offsets)
        if config.permute_sentences:
            left = self._permuted(left, draws)
        if config.infill:
            left = self._infilled(left, draws)
        if config.delete:
            left = _only(left, draws.units(left.lengths, _DELETED) >= config.delete)
        if config.mask:
            hidden = draws.units(left.lengths, _MASKED) < config.mask
            left = Ragged(np.where(hidden, self.pieces.mask, left.flat), left.offsets)
        return Noised(left, rows)

    def _permuted(self, rows: Ragged, draws: Draws) -> Ragged:
        """The sentences of each line in a random order; one ends where a word begins after a mark that ends it."""
        row, place = places(rows.lengths)
        ids = rows.flat
        begins = place > 0  # a further sentence of its line
        begins[1:] &= self.pieces.ends_sentence[ids[:-1]] & self.pieces.begins_word[ids[1:]]
        counts = np.bincount(row[begins], minlength=len(rows)) + (rows.lengths > 0)  # [R] sentences
        sentence = np.cumsum(begins | (place == 0)) - 1  # [T]
        key = draws.units(counts, _ORDER)[sentence]
        return Ragged(ids[np.lexsort((place, key, row))], rows.offsets)

    def _infilled(self, rows: Ragged, draws: Draws) -> Ragged:
        lengths = rows.lengths
        vanish = np.rint(lengths * self.config.infill).astype(np.int64)  # [R]
        row, place = places(vanish)  # of the draws of lengths
        drawn = np.searchsorted(self._poisson, draws.units(vanish, _LENGTH), side="right")
        total = np.cumsum(drawn) - offsets_of(np.bincount(row, drawn, len(rows)).astype(np.int64))[:-1][row]
        before = total - drawn  # how much has vanished when this length was drawn
        left = vanish[row] - before
        drawn = np.where(place == vanish[row] - 1, left, np.minimum(drawn, left))
        is_used = left > 0
        gaps = np.bincount(row[is_used], minlength=len(rows))  # [R]
        things = lengths - vanish + gaps  # [R] pieces that stay, and gaps
        is_gap = draws.some(things, gaps, _GAP)
        width = np.ones(len(is_gap), dtype=np.int64)
        width[is_gap] = drawn[is_used]
        ids = np.append(rows.flat, self.pieces.mask)[offsets_of(width)[:-1]]  # a gap at the end may begin behind it
        ids[is_gap] = self.pieces.mask
        return Ragged(ids, offsets_of(things))

    @cached_property
    def _poisson(self) -> NDArray[np.float64]:
        """P(length <= k) for k = 0, 1, ..., as far as numbers reach."""
        mean = self.config.mean_span
        counts = range(int(mean + 20 * math.sqrt(mean) + 20))
        return np.cumsum([math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in counts])


def _only(rows: Ragged, kept: Flags) -> Ragged:
    """The elements at which `kept` [T] is True."""
    lengths = np.bincount(places(rows.lengths).row[kept], minlength=len(rows))
    return Ragged(rows.flat[kept], offsets_of(lengths))
