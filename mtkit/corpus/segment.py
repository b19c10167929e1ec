"""The pieces of the samples of a window: those of the store, or a random segmentation of their text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.keyed import keyed
from mtkit.corpus.order import Window
from mtkit.corpus.ragged import Ragged
from mtkit.corpus.store import SIDES, Side, Store
from mtkit.text.tokenizer import TokenizerPair


@dataclass(frozen=True)
class Segmented:
    """N samples with their pieces, without bos and eos.

    Attributes:
        src, tgt: N rows each.
        samples: [N] their numbers, counted through all corpora.
    """

    src: Ragged
    tgt: Ragged
    samples: NDArray[np.int64]


@dataclass(frozen=True)
class _Part:
    """The samples [N] of one corpus in a window; `start` is the number of the corpus' first sample among all."""

    store: Store
    start: int
    sample: NDArray[np.int64]
    turn: NDArray[np.int64]


class AbandonedError(Exception):
    """Stops work that nobody waits for; never seen by a user."""


@dataclass(frozen=True)
class Segmenter:
    """Looks up or samples segmentations; a pure function of the window.

    Attributes:
        stores: the corpora.
        tokenizers: of both sides.
        sampling: BPE-dropout's probability or the unigram model's alpha (Tokenizer.sample); 0 takes the stored pieces.
        seed: of the sampling, together with the sample and how often it was seen before.
    """

    stores: Sequence[Store]
    tokenizers: TokenizerPair
    sampling: float
    seed: int

    def __call__(self, window: Window, abandoned: Event) -> Segmented:
        """The samples of the window, ordered as they lie on the disk, so that it is read in one direction.

        Raises:
            AbandonedError: the event was set meanwhile; sampling takes seconds, and nobody waits for it any more.
        """
        order = np.lexsort((window.turn, window.sample, window.corpus))
        corpus, sample, turn = window.corpus[order], window.sample[order], window.turn[order]
        starts = np.cumsum((0, *map(len, self.stores)))
        sides: dict[Side, list[Ragged]] = {side: [] for side in SIDES}
        for number, store in enumerate(self.stores):
            here = corpus == number
            part = _Part(store, int(starts[number]), sample[here], turn[here])
            for side in SIDES:
                rows = store.all_ids(side).take(part.sample)
                sides[side].append(self._sampled(rows, part, side, abandoned) if self.sampling > 0 else rows)
        src, tgt = (Ragged.concatenated(sides[side]) for side in SIDES)
        return Segmented(src, tgt, starts[corpus] + sample)

    def _sampled(self, stored: Ragged, part: _Part, side: Side, abandoned: Event) -> Ragged:
        """Sample anew; what would become longer than the longest stored sentence keeps its stored pieces.

        So no sentence outgrows the budget of a batch or a table of positions that was right for the stored ones.
        """
        tokenizer = self.tokenizers.src if side == "src" else self.tokenizers.tgt
        longest = part.store.summary(side).longest
        rows: list[Sequence[int]] = []
        for row, (sample, turn) in enumerate(zip(part.sample.tolist(), part.turn.tolist(), strict=True)):
            if abandoned.is_set():
                raise AbandonedError
            seed = keyed(self.seed, SIDES.index(side), part.start + sample, turn) >> 32
            ids = tokenizer.sample(part.store.text(side, sample), seed=seed, alpha=self.sampling)
            rows.append(ids if len(ids) <= longest else stored[row].tolist())
        return Ragged.of(rows)
