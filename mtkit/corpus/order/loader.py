"""Training data as a stream of updates that can begin anywhere, and validation data as batches."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Event

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.noise.noise import Corpus, Denoising, Noised, store_of
from mtkit.corpus.noise.row_rng import Draws
from mtkit.corpus.order import batching as plan
from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.collate import collate
from mtkit.corpus.order.hash_rng import keyed
from mtkit.corpus.order.order import Order
from mtkit.corpus.order.prefetch import ahead
from mtkit.corpus.order.segment import Segmented, Segmenter
from mtkit.corpus.store import SIDES
from mtkit.errors import DataError, RecipeError
from mtkit.text.tokenizer import TokenizerPair

_UPDATES_AHEAD = 8  # collated updates that wait


_WINDOWS_AHEAD = 1  # segmented windows that wait, besides the one in use


@dataclass(frozen=True, order=True)
class Position:
    """The next update to draw: its window, and its place in that window's plan."""

    window: int = 0
    update: int = 0


@dataclass(frozen=True)
class Update:
    """The data of one optimiser step.

    Attributes:
        batches: the micro-batches of this rank; every rank has equally many, an idle one gets empty ones (B = 0).
        position: of the update that follows.
        sentences: pairs over all ranks.
        src_tokens: source pieces and eos over all ranks.
        tgt_tokens: target pieces and eos over all ranks; as many labels are scored, unless noise chooses.
        padded_tokens: places of both sides over all ranks, padding included.
    """

    batches: list[Batch]
    position: Position
    sentences: int
    src_tokens: int
    tgt_tokens: int
    padded_tokens: int

    @property
    def tokens(self) -> int:
        """Real tokens of both sides over all ranks."""
        return self.src_tokens + self.tgt_tokens

    @property
    def fill(self) -> float:
        """Real tokens per place."""
        return self.tokens / self.padded_tokens


@dataclass(frozen=True)
class Mixture:
    """Training corpora that are drawn from in a proportion (`corpus.train.N.weight`)."""

    corpora: tuple[Corpus, ...]
    weights: tuple[float, ...]


class Loader:
    """Training data. The order is a function of (corpora, seed); world size only says who computes what.

    Micro-batch j of an update belongs to rank j % world_size.

    Raises:
        RecipeError: the longest sentence alone is beyond `batch_tokens`.
        DataError: a store was made with other tokenizers.
    """

    def __init__(
        self,
        corpora: Sequence[Corpus] | Mixture,
        tokenizers: TokenizerPair,
        *,
        seed: int,
        batch_tokens: int,
        micro_batches: int = 1,
        sampling: float = 0.0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """Take the corpora.

        Args:
            corpora: of training; every sample once an epoch, or a mixture.
            tokenizers: that the stores were made with.
            seed: decides the order, the sampled segmentations and the noise.
            batch_tokens: sentences × longest side of a micro-batch, eos included, at most.
            micro_batches: of an update, over all ranks, at most.
            sampling: see Segmenter; 0 takes the stored pieces.
            rank: of this process.
            world_size: number of processes.
        """
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of {world_size}")
        weights = corpora.weights if isinstance(corpora, Mixture) else None
        corpora = corpora.corpora if isinstance(corpora, Mixture) else tuple(corpora)
        self.stores = tuple(map(store_of, corpora))
        self.order = Order(tuple(map(len, self.stores)), seed, weights)
        self._segment = Segmenter(corpora, tokenizers, sampling, keyed(seed, 1))
        self._tokenizers = tokenizers
        self._seed, self._batch_tokens, self._micro_batches = seed, batch_tokens, micro_batches
        self._rank, self._world_size = rank, world_size
        self._check()

    def updates(self, start: Position = Position()) -> Generator[Update, None, None]:
        """All updates from `start` on, without end; made ahead in the background until the iterator is closed.

        Raises:
            ValueError: there is no such position.
        """
        abandoned = Event()
        windows = ahead(self._windows(start.window, abandoned), _WINDOWS_AHEAD)
        updates = ahead(self._collated(windows, start), _UPDATES_AHEAD)
        try:
            for update in updates:  # noqa: UP028 (`yield from` would close it, and wait, before the event is set)
                yield update
        finally:
            abandoned.set()
            updates.close()

    def _windows(
        self, number: int, abandoned: Event
    ) -> Generator[tuple[int, Segmented, list[plan.Update]], None, None]:
        while True:
            segmented = self._segment(self.order.window(number), abandoned)
            updates = plan.plan(
                segmented.src.lengths + 1,
                segmented.tgt.lengths + 1,
                batch_tokens=self._batch_tokens,
                micro_batches=self._micro_batches,
                key=keyed(self._seed, 2, number),
            )
            yield number, segmented, updates
            number += 1

    def _collated(
        self, windows: Generator[tuple[int, Segmented, list[plan.Update]], None, None], start: Position
    ) -> Generator[Update, None, None]:
        with closing(windows):
            for window, segmented, updates in windows:
                first = start.update if window == start.window else 0
                if not 0 <= first <= len(updates):
                    raise ValueError(f"window {window} has {len(updates)} updates, there is no update {first}")
                for number in range(first, len(updates)):
                    last = number + 1 == len(updates)
                    position = Position(window + 1, 0) if last else Position(window, number + 1)
                    yield self._update(segmented, updates[number], position)

    def _update(self, data: Segmented, rows: plan.Update, position: Position) -> Update:
        lengths = [(data.src.lengths[batch] + 1, data.tgt.lengths[batch] + 1) for batch in rows]
        turns = -(-len(rows) // self._world_size)
        mine = [turn * self._world_size + self._rank for turn in range(turns)]
        nothing = np.empty(0, dtype=np.int64)
        return Update(
            batches=[self._batch(data, rows[number] if number < len(rows) else nothing) for number in mine],
            position=position,
            sentences=sum(map(len, rows)),
            src_tokens=sum(int(src.sum()) for src, _ in lengths),
            tgt_tokens=sum(int(tgt.sum()) for _, tgt in lengths),
            padded_tokens=sum(plan.padded_tokens(src, tgt) for src, tgt in lengths),
        )

    def _batch(self, data: Segmented, rows: NDArray[np.int64]) -> Batch:
        src, tgt = self._tokenizers.src.vocab, self._tokenizers.tgt.vocab
        scored = None if data.scored is None else data.scored.take(rows)
        return collate(data.src.take(rows), data.tgt.take(rows), data.samples[rows], src, tgt, scored=scored)

    def _check(self) -> None:
        for store in self.stores:
            if store.manifest.tokenizer != self._tokenizers.hash():
                raise DataError(f"{store.folder}: was made with another tokenizer; run mtkit preprocess again")
            longest = max((store.summary(side) for side in SIDES), key=lambda side: side.longest)
            if longest.longest + 1 > self._batch_tokens:
                raise RecipeError(
                    f"training.batch_tokens: {self._batch_tokens} is less than the {longest.longest + 1} tokens of "
                    f"{longest.path}:{longest.longest_line}; raise it, or lower corpus.cleaning.max_length"
                )


def eval_batches(corpus: Corpus, *, batch_tokens: int) -> Iterator[Batch]:
    """Every sample of a corpus once, longest first, in the same batches and with the same noise every time.

    Sentences × longest side of a batch is at most `batch_tokens`; a sentence beyond that is a batch of its own.
    `Batch.samples` says which sample each row is.
    """
    store, pieces = store_of(corpus), _all_pieces(corpus)
    src, tgt, scored = pieces.src, pieces.tgt, pieces.scored
    order = plan.by_length(src.lengths + 1, tgt.lengths + 1, key=0)
    longest = np.maximum(src.lengths, tgt.lengths)[order] + 1
    for begin, end in plan.cut_by_budget(longest, batch_tokens):
        rows = order[begin:end]
        vocabs = store.summary("src").vocab, store.summary("tgt").vocab
        asked = None if scored is None else scored.take(rows)
        yield collate(src.take(rows), tgt.take(rows), rows, *vocabs, scored=asked)


def _all_pieces(corpus: Corpus) -> Noised:
    store = store_of(corpus)
    if not isinstance(corpus, Denoising):
        return Noised(store.all_ids("src"), store.all_ids("tgt"))
    samples = np.arange(len(store))
    return corpus.noise(store.all_ids("src"), Draws.of(0, samples, np.zeros_like(samples)))
