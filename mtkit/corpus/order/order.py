"""The data order as a function: the samples of window w.

A window is a bounded number of samples whose micro-batches are planned together. It depends on the sizes of the
corpora, the seed and its own number, and on no earlier window, so that training can start at any window immediately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.order.hash_rng import hash_seed, permute

MAX_WINDOW_SIZE = 1 << 16  # samples; larger windows sort better by length, smaller ones mix better and need less memory
_SHARE_UNITS = 1 << 32  # weights are rounded to multiples of their sum / _SHARE_UNITS, for exact integer arithmetic


@dataclass(frozen=True)
class SampleWindow:
    """The N samples of a window.

    Attributes:
        corpus: [N] the corpus of each sample.
        sample: [N] its index in that corpus.
        epoch: [N] number of complete passes over that corpus before; seeds subword sampling and noise.
    """

    corpus: NDArray[np.int64]
    sample: NDArray[np.int64]
    epoch: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sample)


@dataclass(frozen=True)
class DataOrder:
    """Windows 0, 1, 2, ... over corpora of the given sizes.

    Without weights, `windows_per_epoch` consecutive windows hold every sample exactly once. With weights, a window
    holds samples of the corpora in that proportion. Each corpus is read completely, without repetition, before it
    starts again in another order.
    """

    sizes: tuple[int, ...]
    seed: int
    weights: tuple[float, ...] | None = None
    window_size: int = MAX_WINDOW_SIZE

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError(f"every corpus must have samples, got sizes {self.sizes}")
        if self.weights is not None and len(self.weights) != len(self.sizes):
            raise ValueError(f"{len(self.weights)} weights for {len(self.sizes)} corpora")
        if self.weights is not None and min(self.weights) <= 0:
            raise ValueError(f"weights must be positive, got {self.weights}")

    @property
    def windows_per_epoch(self) -> float:
        """The number of windows that together hold as many samples as all corpora: whole, unless there are weights."""
        total = sum(self.sizes)
        return -(-total // self.window_size) if self.weights is None else total / min(total, self.window_size)

    def window(self, number: int) -> SampleWindow:
        """Window `number` >= 0."""
        if self.weights is None:
            return self._epoch_window(number)
        return self._mixture_window(number, self.weights)

    def _epoch_window(self, number: int) -> SampleWindow:
        """A slice of the epoch's permutation of all samples; the slices of an epoch differ in size by at most 1."""
        total, num_windows = sum(self.sizes), int(self.windows_per_epoch)
        epoch, window = divmod(number, num_windows)
        indices = np.arange(window * total // num_windows, (window + 1) * total // num_windows)
        samples = permute(indices, total, hash_seed(self.seed, epoch))
        starts = np.cumsum((0, *self.sizes))
        corpus = np.searchsorted(starts, samples, side="right") - 1
        return SampleWindow(corpus=corpus, sample=samples - starts[corpus], epoch=np.full(len(samples), epoch))

    def _mixture_window(self, number: int, weights: Sequence[float]) -> SampleWindow:
        count = min(sum(self.sizes), self.window_size)
        shares = [max(1, round(weight / sum(weights) * _SHARE_UNITS)) for weight in weights]
        parts = [
            self._corpus_samples(corpus, number * count, count, (share, sum(shares)))
            for corpus, share in enumerate(shares)
        ]
        return SampleWindow(
            corpus=np.concatenate([part.corpus for part in parts]),
            sample=np.concatenate([part.sample for part in parts]),
            epoch=np.concatenate([part.epoch for part in parts]),
        )

    def _corpus_samples(self, corpus: int, start: int, count: int, share: tuple[int, int]) -> SampleWindow:
        """The samples that one corpus contributes to samples start ... start + count - 1 of the mixture.

        Up to sample i of the mixture a corpus has contributed i · share[0] // share[1] samples, so that the windows
        need no common state.
        """
        size = self.sizes[corpus]
        first, end = start * share[0] // share[1], (start + count) * share[0] // share[1]
        samples, epochs = [], []
        while first < end:
            epoch, index = divmod(first, size)
            length = min(size - index, end - first)
            samples.append(permute(np.arange(index, index + length), size, hash_seed(self.seed, epoch, corpus)))
            epochs.append(np.full(length, epoch))
            first += length
        no_samples = np.empty(0, dtype=np.int64)
        sample = np.concatenate([no_samples, *samples])
        return SampleWindow(
            corpus=np.full(len(sample), corpus), sample=sample, epoch=np.concatenate([no_samples, *epochs])
        )
