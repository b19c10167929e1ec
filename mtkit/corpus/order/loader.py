"""Training data as a stream of updates that can start anywhere, and validation data as batches.

The samples of a window are read with their stored segmentation or a sampled one, as they are or in another form, and
corrupted by noise; then they are arranged to updates and padded to batches.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from threading import Event
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.noise import Corpus, DenoisingCorpus, NoisedBatch, get_store
from mtkit.corpus.order.batch import Batch, collate
from mtkit.corpus.order.hash_rng import RowRandom, hash_seed, uniform01
from mtkit.corpus.order.order import (
    DataOrder,
    SampleWindow,
    UpdateRows,
    padded_tokens,
    plan_updates,
    sort_by_length,
    split_by_token_budget,
)
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.store import SIDES, Store
from mtkit.errors import DataError, RecipeError
from mtkit.hardware import require_thread_memory
from mtkit.text.spans import pair_variant
from mtkit.text.subword.tokenizer import Side
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.vocab import Vocab

_PREFETCHED_UPDATES = 8  # collated updates in the queue
_MAX_COUNTED = 32  # windows; a second or two
_PREFETCHED_WINDOWS = 1  # segmented windows in the queue, besides the one in use

_NOISE_SEED = 2  # next to 0 and 1, the seeds of the two sides' segmentations
_VARIANT_SEED = 3
_CHOICE_BITS = 11  # of the random bits of a sample, those that `uniform01` leaves out


@dataclass(frozen=True)
class SegmentedWindow:
    """N samples with their token ids, without bos and eos.

    Attributes:
        src, tgt: N rows each.
        sample_ids: [N] their numbers, counted through all corpora.
        loss_mask: as `NoisedBatch.loss_mask`.
    """

    src: Ragged
    tgt: Ragged
    sample_ids: NDArray[np.int64]
    loss_mask: Ragged | None = None

    def batch(self, rows: NDArray[np.int64], src: Vocab, tgt: Vocab) -> Batch:
        """The micro-batch of some rows."""
        loss_mask = None if self.loss_mask is None else self.loss_mask.take(rows)
        return collate(self.src.take(rows), self.tgt.take(rows), self.sample_ids[rows], src, tgt, loss_mask=loss_mask)


_Plan = tuple[int, SegmentedWindow, list[UpdateRows]]  # window number, its data, its updates


@dataclass(frozen=True)
class _CorpusSlice:
    """The samples [N] of one corpus in a window; `start` is the number of the corpus' first sample among all."""

    store: Store
    start: int
    sample: NDArray[np.int64]
    epoch: NDArray[np.int64]

    def random(self, seed: int) -> RowRandom:
        """Random numbers of each sample in its epoch."""
        return RowRandom.of(seed, self.start + self.sample, self.epoch)


class CancelledError(Exception):
    """Ends work whose result is no longer needed; never reaches a user."""


@dataclass(frozen=True)
class SubwordSegmenter:
    """Reads or samples segmentations, of variants of form too, and applies noise; a pure function of the window.

    Attributes:
        subword_regularization: BPE-dropout's probability or the unigram model's alpha (see Tokenizer.sample); 0 uses
            the stored segmentation.
        seed: seed of sampling, variants and noise, combined with the sample and its epoch.
    """

    corpora: Sequence[Corpus]
    tokenizers: TokenizerPair
    subword_regularization: float
    seed: int

    def __call__(self, window: SampleWindow, cancelled: Event) -> SegmentedWindow:
        """The samples of the window, in the order of the store, so that the disk is read in one direction.

        Raises:
            CancelledError: the event was set; sampling takes seconds, and the result is no longer needed.
            ValueError: some corpora have a loss mask and others not.
        """
        order = np.lexsort((window.epoch, window.sample, window.corpus))
        corpus, sample, epoch = window.corpus[order], window.sample[order], window.epoch[order]
        starts = np.cumsum((0, *(len(get_store(each)) for each in self.corpora)))
        batches: list[NoisedBatch] = []
        for number, each in enumerate(self.corpora):
            here = corpus == number
            part = _CorpusSlice(get_store(each), int(starts[number]), sample[here], epoch[here])
            src = self._segment_side(part, "src", cancelled)
            if isinstance(each, DenoisingCorpus):
                batches.append(each.apply_noise(src, part.random(hash_seed(self.seed, _NOISE_SEED))))
                continue
            pair = src, self._segment_side(part, "tgt", cancelled)
            batches.append(
                NoisedBatch(*(self._with_variants(pair, part) if self.tokenizers.config.robustness else pair))
            )
        masks = [batch.loss_mask for batch in batches if batch.loss_mask is not None]
        if masks and len(masks) < len(batches):
            raise ValueError("masked text (noise.kind mlm) cannot be mixed with other training data")
        return SegmentedWindow(
            Ragged.concat([batch.src for batch in batches]),
            Ragged.concat([batch.tgt for batch in batches]),
            starts[corpus] + sample,
            Ragged.concat(masks) if masks else None,
        )

    def _with_variants(self, pair: tuple[Ragged, Ragged], part: _CorpusSlice) -> tuple[Ragged, Ragged]:
        """Both sides of the samples, a share of them in another form; none exceeds the longest stored sentence."""
        bits = part.random(hash_seed(self.seed, _VARIANT_SEED)).keys  # [N]
        rows = np.flatnonzero(uniform01(bits) < self.tokenizers.config.robustness)
        choice = (bits[rows] & np.uint64((1 << _CHOICE_BITS) - 1)).tolist()
        texts = [
            pair_variant(part.store.text("src", sample), part.store.text("tgt", sample), each)
            for sample, each in zip(part.sample[rows].tolist(), choice, strict=True)
        ]
        if not texts:
            return pair
        src_lines, tgt_lines = map(list, zip(*texts, strict=True))
        prefixes = [part.store.manifest.prefix_of(side) for side in SIDES]
        encoded = self.tokenizers.encode_pairs(src_lines, tgt_lines)
        sides = [Ragged.of(ids).with_first(prefix) for ids, prefix in zip(encoded, prefixes, strict=True)]
        fits = [ids.lengths <= part.store.stats(side).max_length for side, ids in zip(SIDES, sides, strict=True)]
        has_text = [ids.lengths > len(prefix) for ids, prefix in zip(sides, prefixes, strict=True)]
        fitting = np.flatnonzero(np.logical_and.reduce([*fits, *has_text]))
        index = np.arange(len(part.sample))  # of rows, of which the new ones follow the old ones
        index[rows[fitting]] = len(index) + fitting
        src, tgt = (Ragged.concat([old, new]).take(index) for old, new in zip(pair, sides, strict=True))
        return src, tgt

    def _segment_side(self, part: _CorpusSlice, side: Side, cancelled: Event) -> Ragged:
        """Stored or sampled segmentations; a sample that is longer than the longest stored sentence is not used.

        So no sentence exceeds the token budget or the table of positions that the stored sentences fit into. Those
        with copy tokens stay as they are stored.
        """
        stored = part.store.ids(side).take(part.sample)
        if not self.subword_regularization:
            return stored
        tokenizer = self.tokenizers.of(side)
        max_length = part.store.stats(side).max_length
        prefix = part.store.manifest.prefix_of(side)
        copy_ids = self.tokenizers.copy_ids(side)
        rows: list[Sequence[int]] = []
        for row, (sample, epoch) in enumerate(zip(part.sample.tolist(), part.epoch.tolist(), strict=True)):
            if cancelled.is_set():
                raise CancelledError
            seed = hash_seed(self.seed, SIDES.index(side), part.start + sample, epoch) >> 32
            ids = tokenizer.sample(part.store.text(side, sample), seed=seed, alpha=self.subword_regularization)
            ids, old = [*prefix, *ids], stored[row].tolist()
            rows.append(ids if len(ids) <= max_length and copy_ids.isdisjoint(old) else old)
        return Ragged.of(rows)


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
        """The data of updates from a position on, without end."""
        ...


class Loader:
    """Training data. The order is a function of (corpora, seed), independent of the number of processes.

    Micro-batch j of an update belongs to rank j % world_size.

    Raises:
        RecipeError: the longest sentence alone exceeds `batch_tokens`.
        DataError: a store was built with other tokenizers.
    """

    def __init__(
        self,
        corpora: Sequence[Corpus],
        tokenizers: TokenizerPair,
        *,
        seed: int,
        batch_tokens: int,
        weights: Sequence[float] = (),
        micro_batches: int = 1,
        subword_regularization: float = 0.0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """Open the training data.

        Args:
            corpora: the training corpora.
            seed: determines the order, the sampled segmentations and the noise.
            batch_tokens: upper limit of sentences × longest side of a micro-batch, eos included.
            weights: proportion in which the corpora are mixed (`corpus.train.N.weight`); empty: every sample is read
                once an epoch.
            micro_batches: micro-batches of an update over all ranks, at most.
            subword_regularization: see SubwordSegmenter; 0 uses the stored segmentation.
            world_size: number of processes.
        """
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of {world_size}")
        self.stores = tuple(map(get_store, corpora))
        self.order = DataOrder(tuple(map(len, self.stores)), seed, tuple(weights) or None)
        self._segmenter = SubwordSegmenter(corpora, tokenizers, subword_regularization, hash_seed(seed, 1))
        self._tokenizers = tokenizers
        self._seed, self._batch_tokens, self._micro_batches = seed, batch_tokens, micro_batches
        self._rank, self._world_size = rank, world_size
        for store in self.stores:
            if store.manifest.tokenizer != tokenizers.hash():
                raise DataError(f"{store.folder}: was built with another tokenizer; run mtkit preprocess again")
            longer = max((store.stats(side) for side in SIDES), key=lambda side: side.max_length)
            if longer.max_length + 1 > batch_tokens:
                raise RecipeError(
                    f"training.batch_tokens: {batch_tokens} is less than the {longer.max_length + 1} tokens of "
                    f"{longer.path}:{longer.max_length_line}; raise it, or lower corpus.cleaning.max_length"
                )

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
        """The number of updates of a number of epochs, at least 1.

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
        vocabs = self._tokenizers.src.vocab, self._tokenizers.tgt.vocab
        batches_per_rank = -(-len(rows) // self._world_size)
        of_rank = range(self._rank, batches_per_rank * self._world_size, self._world_size)
        no_rows = np.empty(0, dtype=np.int64)
        return UpdateData(
            batches=[data.batch(rows[number] if number < len(rows) else no_rows, *vocabs) for number in of_rank],
            next_position=next_position,
            sentences=sum(map(len, rows)),
            src_tokens=sum(int(src.sum()) for src, _ in lengths),
            tgt_tokens=sum(int(tgt.sum()) for _, tgt in lengths),
            padded_tokens=sum(padded_tokens(src, tgt) for src, tgt in lengths),
        )


def eval_batches(corpus: Corpus, *, batch_tokens: int) -> Iterator[Batch]:
    """Every sample of a corpus once, longest first; batches and noise are the same in every call.

    Sentences × longest side of a batch is at most `batch_tokens`; a longer sentence is a batch of its own.
    `Batch.sample_ids` identifies the sample of each row.
    """
    store = get_store(corpus)
    sample_ids = np.arange(len(store))
    samples = SegmentedWindow(store.ids("src"), store.ids("tgt"), sample_ids)
    if isinstance(corpus, DenoisingCorpus):
        noised = corpus.apply_noise(samples.src, RowRandom.of(0, sample_ids, np.zeros_like(sample_ids)))
        samples = SegmentedWindow(noised.src, noised.tgt, sample_ids, noised.loss_mask)
    src_lengths, tgt_lengths = samples.src.lengths + 1, samples.tgt.lengths + 1
    order = sort_by_length(src_lengths, tgt_lengths, key=0)
    for start, end in split_by_token_budget(np.maximum(src_lengths, tgt_lengths)[order], batch_tokens):
        yield samples.batch(order[start:end], store.stats("src").vocab, store.stats("tgt").vocab)


T = TypeVar("T")


_END = object()  # marks the end of an iterator


def prefetch(items: Generator[T, None, None], count: int) -> Generator[T, None, None]:
    """The same items in the same order, up to `count` of them computed in advance.

    An error of `items` is raised at the position of the failed item. Closing this iterator waits for the item that is
    being computed, closes `items`, and ends the thread.
    """
    require_thread_memory()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch") as pool:
        pending: deque[Future[Any]] = deque(pool.submit(next, items, _END) for _ in range(count))
        try:
            while (item := pending.popleft().result()) is not _END:
                pending.append(pool.submit(next, items, _END))
                yield item
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            items.close()
