"""Training data as a stream of updates that can start anywhere, and validation data as batches."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from threading import Event
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.noise.noise import Corpus, DenoisingCorpus, NoisedBatch, get_store
from mtkit.corpus.noise.row_rng import RowRandom
from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.batching import (
    UpdateRows,
    padded_tokens,
    plan_updates,
    sort_by_length,
    split_by_token_budget,
)
from mtkit.corpus.order.collate import collate
from mtkit.corpus.order.hash_rng import hash_seed
from mtkit.corpus.order.order import DataOrder
from mtkit.corpus.order.prefetch import prefetch
from mtkit.corpus.order.segment import SegmentedWindow, SubwordSegmenter
from mtkit.corpus.store import SIDES
from mtkit.errors import DataError, RecipeError
from mtkit.text.tokenizer import TokenizerPair

_PREFETCHED_UPDATES = 8  # collated updates in the queue
_MAX_COUNTED = 32  # windows; a second or two
_PREFETCHED_WINDOWS = 1  # segmented windows in the queue, besides the one in use

_Plan = tuple[int, SegmentedWindow, list[UpdateRows]]  # window number, its data, its updates


@dataclass(frozen=True, order=True)
class DataPosition:
    """A position in the data order: a window, and an update within that window."""

    window: int = 0
    update: int = 0


@dataclass(frozen=True)
class UpdateData:
    """The data of one optimiser step.

    Attributes:
        batches: the micro-batches of this rank. All ranks have the same number; an idle rank gets empty ones (B = 0).
        src_tokens: source tokens with eos over all ranks.
        tgt_tokens: target tokens with eos over all ranks; all are in the loss, unless noise selects some.
        padded_tokens: tokens of both sides over all ranks, including padding.
    """

    batches: list[Batch]
    next_position: DataPosition
    sentences: int
    src_tokens: int
    tgt_tokens: int
    padded_tokens: int


class UpdateSource(Protocol):
    """Source of training data, as a Loader is."""

    def updates(self, start: DataPosition) -> Generator[UpdateData, None, None]:
        """Yield the data of updates from a position on, without end."""
        ...


@dataclass(frozen=True)
class CorpusMixture:
    """Training corpora that are mixed in a proportion (`corpus.train.N.weight`)."""

    corpora: tuple[Corpus, ...]
    weights: tuple[float, ...]


class Loader:
    """Training data. The order is a function of (corpora, seed), independent of the number of processes.

    Micro-batch j of an update belongs to rank j % world_size.

    Raises:
        RecipeError: the longest sentence alone exceeds `batch_tokens`.
        DataError: a store was built with other tokenizers.
    """

    def __init__(
        self,
        corpora: Sequence[Corpus] | CorpusMixture,
        tokenizers: TokenizerPair,
        *,
        seed: int,
        batch_tokens: int,
        micro_batches: int = 1,
        subword_regularization: float = 0.0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """Open the training data.

        Args:
            corpora: the training corpora; a sequence gives every sample once an epoch.
            seed: determines the order, the sampled segmentations and the noise.
            batch_tokens: upper limit of sentences × longest side of a micro-batch, eos included.
            micro_batches: micro-batches of an update over all ranks, at most.
            subword_regularization: see SubwordSegmenter; 0 uses the stored segmentation.
            world_size: number of processes.
        """
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of {world_size}")
        weights = corpora.weights if isinstance(corpora, CorpusMixture) else None
        corpora = corpora.corpora if isinstance(corpora, CorpusMixture) else tuple(corpora)
        self.stores = tuple(map(get_store, corpora))
        self.order = DataOrder(tuple(map(len, self.stores)), seed, weights)
        self._segmenter = SubwordSegmenter(corpora, tokenizers, subword_regularization, hash_seed(seed, 1))
        self._tokenizers = tokenizers
        self._seed, self._batch_tokens, self._micro_batches = seed, batch_tokens, micro_batches
        self._rank, self._world_size = rank, world_size
        self._check()

    def updates(self, start: DataPosition = DataPosition()) -> Generator[UpdateData, None, None]:
        """All updates from `start` on, without end; prefetched in the background until the iterator is closed.

        Raises:
            ValueError: there is no such position.
        """
        cancelled = Event()
        windows = prefetch(self._plan_windows(start.window, cancelled), _PREFETCHED_WINDOWS)
        updates = prefetch(self._collate_updates(windows, start), _PREFETCHED_UPDATES)
        try:
            for update in updates:  # noqa: UP028 (`yield from` would close it, and wait, before the event is set)
                yield update
        finally:
            cancelled.set()
            updates.close()

    def count_updates(self, epochs: float) -> int:
        """Return the number of updates of a number of epochs, at least 1.

        It is exact for whole windows, at most _MAX_COUNTED. The updates of a part of a window, or of more windows, are
        in proportion to those that were planned. Epochs of corpora with weights are seldom whole windows.
        """
        num_windows = epochs * self.order.windows_per_epoch
        planned = min(math.ceil(num_windows), _MAX_COUNTED)
        windows = islice(self._plan_windows(0, Event()), planned)
        return max(1, round(sum(len(updates) for _, _, updates in windows) * num_windows / planned))

    def _plan_windows(self, number: int, cancelled: Event) -> Generator[_Plan, None, None]:
        while True:
            segmented = self._segmenter(self.order.window(number), cancelled)
            updates = plan_updates(
                segmented.src.lengths + 1,
                segmented.tgt.lengths + 1,
                batch_tokens=self._batch_tokens,
                micro_batches=self._micro_batches,
                key=hash_seed(self._seed, 2, number),
            )
            yield number, segmented, updates
            number += 1

    def _collate_updates(
        self, windows: Generator[_Plan, None, None], start: DataPosition
    ) -> Generator[UpdateData, None, None]:
        with closing(windows):
            for window, segmented, updates in windows:
                first = start.update if window == start.window else 0
                if not 0 <= first <= len(updates):
                    raise ValueError(f"window {window} has {len(updates)} updates, there is no update {first}")
                for number in range(first, len(updates)):
                    is_last = number + 1 == len(updates)
                    next_position = DataPosition(window + 1, 0) if is_last else DataPosition(window, number + 1)
                    yield self._update(segmented, updates[number], next_position)

    def _update(self, data: SegmentedWindow, rows: UpdateRows, next_position: DataPosition) -> UpdateData:
        lengths = [(data.src.lengths[batch] + 1, data.tgt.lengths[batch] + 1) for batch in rows]
        batches_per_rank = -(-len(rows) // self._world_size)
        own = [number * self._world_size + self._rank for number in range(batches_per_rank)]
        no_rows = np.empty(0, dtype=np.int64)
        return UpdateData(
            batches=[self._batch(data, rows[number] if number < len(rows) else no_rows) for number in own],
            next_position=next_position,
            sentences=sum(map(len, rows)),
            src_tokens=sum(int(src.sum()) for src, _ in lengths),
            tgt_tokens=sum(int(tgt.sum()) for _, tgt in lengths),
            padded_tokens=sum(padded_tokens(src, tgt) for src, tgt in lengths),
        )

    def _batch(self, data: SegmentedWindow, rows: NDArray[np.int64]) -> Batch:
        src, tgt = self._tokenizers.src.vocab, self._tokenizers.tgt.vocab
        loss_mask = None if data.loss_mask is None else data.loss_mask.take(rows)
        return collate(data.src.take(rows), data.tgt.take(rows), data.sample_ids[rows], src, tgt, loss_mask=loss_mask)

    def _check(self) -> None:
        for store in self.stores:
            if store.manifest.tokenizer != self._tokenizers.hash():
                raise DataError(f"{store.folder}: was built with another tokenizer; run mtkit preprocess again")
            longer = max((store.stats(side) for side in SIDES), key=lambda side: side.max_length)
            if longer.max_length + 1 > self._batch_tokens:
                raise RecipeError(
                    f"training.batch_tokens: {self._batch_tokens} is less than the {longer.max_length + 1} tokens of "
                    f"{longer.path}:{longer.max_length_line}; raise it, or lower corpus.cleaning.max_length"
                )


def eval_batches(corpus: Corpus, *, batch_tokens: int) -> Iterator[Batch]:
    """Every sample of a corpus once, longest first; batches and noise are the same in every call.

    Sentences × longest side of a batch is at most `batch_tokens`; a longer sentence is a batch of its own.
    `Batch.sample_ids` identifies the sample of each row.
    """
    store, data = get_store(corpus), _all_ids(corpus)
    src, tgt, loss_mask = data.src, data.tgt, data.loss_mask
    order = sort_by_length(src.lengths + 1, tgt.lengths + 1, key=0)
    longer = np.maximum(src.lengths, tgt.lengths)[order] + 1
    for start, end in split_by_token_budget(longer, batch_tokens):
        rows = order[start:end]
        vocabs = store.stats("src").vocab, store.stats("tgt").vocab
        own_mask = None if loss_mask is None else loss_mask.take(rows)
        yield collate(src.take(rows), tgt.take(rows), rows, *vocabs, loss_mask=own_mask)


def _all_ids(corpus: Corpus) -> NoisedBatch:
    store = get_store(corpus)
    if not isinstance(corpus, DenoisingCorpus):
        return NoisedBatch(store.all_ids("src"), store.all_ids("tgt"))
    sample_ids = np.arange(len(store))
    return corpus.apply_noise(store.all_ids("src"), RowRandom.of(0, sample_ids, np.zeros_like(sample_ids)))
