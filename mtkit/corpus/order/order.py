"""The order of the data as a function: which samples window w holds.

A window is a bounded number of samples whose micro-batches are planned together. It depends on the sizes of the
corpora, the seed and its own number, and on nothing that came before; so a training can begin at any window at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.order.hash_rng import keyed, permute

WINDOW = 1 << 16  # samples at most; larger ones sort better by length, smaller ones mix better and need less memory


_SHARE = 1 << 32  # weights are counted in units of 1 / _SHARE of their sum, so that the arithmetic is exact


@dataclass(frozen=True)
class Window:
    """Samples drawn together, N of them.

    Attributes:
        corpus: [N] which corpus.
        sample: [N] which sample of it.
        turn: [N] how often that corpus had been seen whole before ("pass"); seeds the sampling of segmentations.
    """

    corpus: NDArray[np.int64]
    sample: NDArray[np.int64]
    turn: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sample)


@dataclass(frozen=True)
class Order:
    """Windows 0, 1, 2, ... over corpora of the given sizes.

    Without weights, each `windows_per_epoch` windows hold every sample exactly once. With weights, a window holds
    samples of the corpora in that proportion, and each corpus is gone through without repetition before it begins
    again, in another order.
    """

    sizes: tuple[int, ...]
    seed: int
    weights: tuple[float, ...] | None = None
    bound: int = WINDOW

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError(f"every corpus must have samples, got sizes {self.sizes}")
        if self.weights is not None and len(self.weights) != len(self.sizes):
            raise ValueError(f"{len(self.weights)} weights for {len(self.sizes)} corpora")
        if self.weights is not None and min(self.weights) <= 0:
            raise ValueError(f"weights must be positive, got {self.weights}")

    @property
    def windows_per_epoch(self) -> int:
        """How many windows hold as many samples as there are in all corpora."""
        return -(-sum(self.sizes) // self.bound)

    def window(self, number: int) -> Window:
        """Window `number` >= 0."""
        if self.weights is None:
            return self._even(number)
        return self._mixed(number, self.weights)

    def _even(self, number: int) -> Window:
        total, parts = sum(self.sizes), self.windows_per_epoch
        turn, part = divmod(number, parts)
        places = np.arange(part * total // parts, (part + 1) * total // parts)
        drawn = permute(places, total, keyed(self.seed, turn))
        starts = np.cumsum((0, *self.sizes))
        corpus = np.searchsorted(starts, drawn, side="right") - 1
        return Window(corpus=corpus, sample=drawn - starts[corpus], turn=np.full(len(drawn), turn))

    def _mixed(self, number: int, weights: Sequence[float]) -> Window:
        draws = min(sum(self.sizes), self.bound)
        shares = [max(1, round(weight / sum(weights) * _SHARE)) for weight in weights]
        parts = [
            self._stream(corpus, number * draws, draws, (share, sum(shares))) for corpus, share in enumerate(shares)
        ]
        return Window(
            corpus=np.concatenate([part.corpus for part in parts]),
            sample=np.concatenate([part.sample for part in parts]),
            turn=np.concatenate([part.turn for part in parts]),
        )

    def _stream(self, corpus: int, begin: int, draws: int, share: tuple[int, int]) -> Window:
        """What one corpus gives to the draws begin ... begin + draws - 1 of the mixture."""
        size = self.sizes[corpus]
        first, last = begin * share[0] // share[1], (begin + draws) * share[0] // share[1]
        samples, turns = [], []
        while first < last:
            turn, place = divmod(first, size)
            count = min(size - place, last - first)
            samples.append(permute(np.arange(place, place + count), size, keyed(self.seed, turn, corpus)))
            turns.append(np.full(count, turn))
            first += count
        sample = np.concatenate([np.empty(0, dtype=np.int64), *samples])
        turn_of = np.concatenate([np.empty(0, dtype=np.int64), *turns])
        return Window(corpus=np.full(len(sample), corpus), sample=sample, turn=turn_of)
