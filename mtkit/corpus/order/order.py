"""The data order as a function: the samples of window w, and their arrangement to micro-batches and updates.

A window is a bounded number of samples whose micro-batches are planned together. It depends on the sizes of the
corpora, the seed and its own number, and on no earlier window, so that training can start at any window immediately.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.order.hash_rng import hash_array, hash_seed, permute, shuffle, uniform01

MAX_WINDOW_SIZE = 1 << 16  # samples; larger windows sort better by length, smaller ones mix better and need less memory
_SHARE_UNITS = 1 << 32  # weights are rounded to multiples of their sum / _SHARE_UNITS, for exact integer arithmetic
# Noise on the sort key, in tokens: larger values mix more sentences but cost padding. Share of real tokens on Multi30k
# (batches of 4,096 tokens, vocabulary of 8,000): 0.969 at 1 (which mixes only equal lengths), 0.959 at 2, 0.947 at 4.
_LENGTH_NOISE = 2.0

UpdateRows = list[NDArray[np.int64]]  # the micro-batches of one update, each the row numbers of its sentences


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
        total = sum(self.sizes)
        if self.weights is None:
            # a slice of the epoch's permutation of all samples; the slices of an epoch differ in size by at most 1
            num_windows = int(self.windows_per_epoch)
            epoch, window = divmod(number, num_windows)
            indices = np.arange(window * total // num_windows, (window + 1) * total // num_windows)
            samples = permute(indices, total, hash_seed(self.seed, epoch))
            starts = np.cumsum((0, *self.sizes))
            corpus = np.searchsorted(starts, samples, side="right") - 1
            return SampleWindow(corpus=corpus, sample=samples - starts[corpus], epoch=np.full(len(samples), epoch))
        # Up to sample i of the mixture a corpus has contributed i · share // sum(shares) samples, so that the windows
        # need no common state.
        count = min(total, self.window_size)
        shares = [max(1, round(weight / sum(self.weights) * _SHARE_UNITS)) for weight in self.weights]
        rows = [np.empty((3, 0), dtype=np.int64)]  # [3, N] corpus, sample and epoch
        for number_of_corpus, (size, share) in enumerate(zip(self.sizes, shares, strict=True)):
            first, end = number * count * share // sum(shares), (number + 1) * count * share // sum(shares)
            while first < end:
                epoch, index = divmod(first, size)
                length = min(size - index, end - first)
                key = hash_seed(self.seed, epoch, number_of_corpus)
                samples = permute(np.arange(index, index + length), size, key)
                rows.append(np.stack([np.full(length, number_of_corpus), samples, np.full(length, epoch)]))
                first += length
        return SampleWindow(*np.concatenate(rows, axis=1))


def plan_updates(
    src: NDArray[np.int64], tgt: NDArray[np.int64], *, batch_tokens: int, micro_batches: int, key: int
) -> list[UpdateRows]:
    """Arrange N sentence pairs into updates; each pair occurs exactly once.

    Args:
        src: [N] source lengths in tokens, eos included.
        tgt: [N] target lengths in tokens, eos included.
        batch_tokens: upper limit of sentences × longest side of a micro-batch.
        micro_batches: micro-batches of an update. Some updates have one fewer if the number of micro-batches is not
            divisible.
        key: determines the order of the updates, and the grouping of sentences of similar length.

    Raises:
        ValueError: a sentence is longer than the budget.
    """
    max_length = int(max(src.max(initial=0), tgt.max(initial=0)))
    if max_length > batch_tokens:
        raise ValueError(f"a sentence of {max_length} tokens exceeds the budget of {batch_tokens}")
    order = sort_by_length(src, tgt, hash_seed(key, 0))
    # The first micro-batch gets a random share of its sentences, so that the boundaries differ from epoch to epoch.
    bounds = split_by_token_budget(
        np.maximum(src, tgt)[order], batch_tokens, first_share=1 - uniform01(hash_seed(key, 1))
    )
    batches = [order[start:end] for start, end in bounds]
    batches = [batches[number] for number in shuffle(len(batches), hash_seed(key, 2))]
    num_updates = -(-len(batches) // micro_batches)
    update_bounds = [number * len(batches) // num_updates for number in range(num_updates + 1)]
    return [batches[start:end] for start, end in pairwise(update_bounds)]


def sort_by_length(src: NDArray[np.int64], tgt: NDArray[np.int64], key: int) -> NDArray[np.int64]:
    """[N] the row numbers, longest first by the longer side, so that neighbours also agree on the other side.

    Among rows with the same longer side the difference of the sides alternately rises and falls, so that it does not
    jump where the longer side changes. The key adds a little noise to the difference and so varies the neighbours.
    """
    longer = np.maximum(src, tgt)
    difference = np.where(longer % 2 == 0, src - tgt, tgt - src)
    noisy = difference + _LENGTH_NOISE * uniform01(hash_array(key, np.arange(len(src))))
    return np.lexsort((noisy, -longer))


def split_by_token_budget(
    longer: NDArray[np.int64], batch_tokens: int, *, first_share: float = 1.0
) -> list[tuple[int, int]]:
    """Start and end of each micro-batch over rows sorted by decreasing length.

    Each micro-batch has the largest number of rows within the budget, and at least one.

    Args:
        longer: [N] length of the longer side in tokens, eos included.
        first_share: in (0, 1], the share of its rows that the first micro-batch gets; shifts all boundaries.
    """
    bounds: list[tuple[int, int]] = []
    start = 0
    while start < len(longer):
        count = batch_tokens // int(longer[start])
        if start == 0:
            count = math.ceil(count * first_share)
        end = min(start + max(1, count), len(longer))
        bounds.append((start, end))
        start = end
    return bounds


def padded_tokens(src: NDArray[Any], tgt: NDArray[Any]) -> int:
    """Tokens including padding of a micro-batch of pairs with these lengths [B], eos included: B·S + B·T."""
    return len(src) * int(src.max(initial=0) + tgt.max(initial=0))
