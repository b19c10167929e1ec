"""The pieces of the samples of a window: of the store, or a random segmentation of its text; noise, if there is any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.noise.noise import Corpus, Denoising, Noised, store_of
from mtkit.corpus.noise.row_rng import Draws
from mtkit.corpus.order.hash_rng import keyed
from mtkit.corpus.order.order import Window
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.store import SIDES, Side, Store
from mtkit.text.tokenizer import TokenizerPair


@dataclass(frozen=True)
class Segmented:
    """N samples with their pieces, without bos and eos.

    Attributes:
        src, tgt: N rows each.
        samples: [N] their numbers, counted through all corpora.
        scored: as `Noised.scored`.
    """

    src: Ragged
    tgt: Ragged
    samples: NDArray[np.int64]
    scored: Ragged | None = None


@dataclass(frozen=True)
class _Part:
    """The samples [N] of one corpus in a window; `start` is the number of the corpus' first sample among all."""

    corpus: Corpus
    start: int
    sample: NDArray[np.int64]
    turn: NDArray[np.int64]

    @property
    def store(self) -> Store:
        """Of the corpus."""
        return store_of(self.corpus)


_NOISE = 2  # beside the two sides, whose segmentations have seeds of their own


class AbandonedError(Exception):
    """Stops work that nobody waits for; never seen by a user."""


@dataclass(frozen=True)
class Segmenter:
    """Looks up or samples segmentations, and disturbs what is to be restored; a pure function of the window.

    Attributes:
        corpora: all of them.
        tokenizers: of both sides.
        sampling: BPE-dropout's probability or the unigram model's alpha (Tokenizer.sample); 0 takes the stored pieces.
        seed: of sampling and noise, together with the sample and how often it was seen before.
    """

    corpora: Sequence[Corpus]
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
        starts = np.cumsum((0, *(len(store_of(each)) for each in self.corpora)))
        found: list[Noised] = []
        for number, each in enumerate(self.corpora):
            here = corpus == number
            found.append(self._pieces(_Part(each, int(starts[number]), sample[here], turn[here]), abandoned))
        return Segmented(
            Ragged.concatenated([part.src for part in found]),
            Ragged.concatenated([part.tgt for part in found]),
            starts[corpus] + sample,
            joined([part.scored for part in found]),
        )

    def _pieces(self, part: _Part, abandoned: Event) -> Noised:
        src = self._side(part, "src", abandoned)
        if not isinstance(part.corpus, Denoising):
            return Noised(src, self._side(part, "tgt", abandoned))
        return part.corpus.noise(src, Draws.of(keyed(self.seed, _NOISE), part.start + part.sample, part.turn))

    def _side(self, part: _Part, side: Side, abandoned: Event) -> Ragged:
        stored = part.store.all_ids(side).take(part.sample)
        return self._sampled(stored, part, side, abandoned) if self.sampling > 0 else stored

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


def joined(scored: Sequence[Ragged | None]) -> Ragged | None:
    """What is scored of all parts.

    Raises:
        ValueError: of one part everything is, of another a choice.
    """
    choices = [rows for rows in scored if rows is not None]
    if choices and len(choices) < len(scored):
        raise ValueError("masked text and other text cannot be mixed")
    return Ragged.concatenated(choices) if choices else None
