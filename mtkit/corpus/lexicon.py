"""Which target pieces a source piece is translated by, learned from the binary corpus.

IBM model 1: Brown et al. 1993, sec. 4.1, eq. (5) to (7), https://aclanthology.org/J93-2003/ . The source's end of
sentence takes the part of their empty word e_0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from mtkit.corpus.order.ragged import Ragged, offsets_of
from mtkit.corpus.store import Store
from mtkit.errors import DamagedError
from mtkit.io.files import reading, write_bytes

ITERATIONS = 4  # of expectation and maximisation; the lists hardly change after these
MOST_LINKS = 16_000_000  # pairs of pieces to learn from; bounds the memory, at about 25 bytes each
BLOCK_LINKS = 1_000_000  # worked on at a time
ENOUGH = 100  # a pair of a large corpus is left out if each of its pieces has been seen so often
LONGEST_LIST = 64  # target pieces kept for a source piece
LEAST = 0.002  # probability that a kept one has


@dataclass(frozen=True)
class Lexicon:
    """Row s of `targets` and of `probabilities` are the likely translations of source piece s, best first.

    Attributes:
        targets: [V_src] rows of target ids, int32.
        probabilities: the t(target | source) that go with them, flat, float16.
        frequent: [V_tgt] all target ids, the most frequent first, int32.
    """

    targets: Ragged
    probabilities: NDArray[np.float16]
    frequent: NDArray[np.int32]

    def narrowed(self, *, longest: int, least: float) -> Lexicon:
        """With at most so many targets for each source piece, each at least so probable."""
        lengths = self.targets.lengths
        rank = np.arange(len(self.targets.flat)) - np.repeat(self.targets.offsets[:-1], lengths)
        kept = (rank < longest) & (self.probabilities >= least)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        offsets = offsets_of(np.bincount(rows[kept], minlength=len(lengths)))
        return replace(self, targets=Ragged(self.targets.flat[kept], offsets), probabilities=self.probabilities[kept])

    def save(self, path: Path) -> None:
        """Write a file in the safetensors format; equal lexicons are equal bytes.

        Raises:
            ReadWriteError: it cannot be written.
        """
        columns: dict[str, NDArray[Any]] = {
            "frequent": self.frequent,
            "offsets": self.targets.offsets,
            "probabilities": self.probabilities,
            "targets": self.targets.flat,
        }
        write_bytes(path, safetensors.numpy.save(columns))

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        """Read what `save` wrote.

        Raises:
            MissingInputError, ReadWriteError: as `files.reading`.
            DamagedError: the file is damaged.
        """
        with reading(path):
            content = path.read_bytes()
        try:
            columns = safetensors.numpy.load(content)
            targets = Ragged(columns["targets"], columns["offsets"])
            return cls(targets, columns["probabilities"], columns["frequent"])
        except (SafetensorError, KeyError) as error:
            raise DamagedError(f"{path}: damaged: not a lexicon", _REMEDY) from error


_REMEDY = "mtkit preprocess makes that of a run again"


class _Links(NamedTuple):
    """All pairs (source piece, target piece) of some sentence pairs, one target piece after the other."""

    key: NDArray[np.int64]  # [L] source · V_tgt + target
    begin: NDArray[np.int64]  # [T] where the links of each target piece begin


def learn_lexicon(stores: Sequence[Store]) -> Lexicon:
    """Align the pieces of a training corpus and keep what each source piece is likely to become.

    Of a large corpus a part is read to the end that holds each piece often enough; memory is bounded by MOST_LINKS.
    """
    src_vocab, tgt_vocab = stores[0].summary("src").vocab, stores[0].summary("tgt").vocab
    blocks = []
    for src, tgt in _pairs(stores, src_vocab.size, tgt_vocab.size):
        links = _links(src, tgt, eos=src_vocab.eos, targets=tgt_vocab.size)
        own, place = np.unique(links.key, return_inverse=True)
        blocks.append((own, place.astype(np.int32), links.begin))
    keys = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *(own for own, _, _ in blocks)]))
    indexed = [(np.searchsorted(keys, own).astype(np.int32)[place], begin) for own, place, begin in blocks]
    probability = _estimate(keys // tgt_vocab.size, indexed)
    counts = sum((_count(store.all_ids("tgt").flat, tgt_vocab.size) for store in stores), np.zeros(tgt_vocab.size))
    frequent = np.argsort(-counts, kind="stable").astype(np.int32)
    return _sorted(keys, probability, frequent, sources=src_vocab.size)


def _estimate(source: NDArray[np.int64], blocks: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> NDArray[np.float64]:
    """t(target | source) of each key [N] by expectation maximisation; a block has its links' keys and groups."""
    probability = np.ones(len(source))
    for _ in range(ITERATIONS):
        count = np.zeros(len(source))
        for key, begin in blocks:
            share = probability[key]  # [L]
            total = np.add.reduceat(share, begin)  # [T]
            share /= np.repeat(total, np.diff(begin, append=len(key)))
            count += np.bincount(key, share, minlength=len(source))
        probability = count / np.maximum(np.bincount(source, count), 1e-30)[source]
    return probability


def _sorted(
    keys: NDArray[np.int64], probability: NDArray[np.float64], frequent: NDArray[np.int32], *, sources: int
) -> Lexicon:
    targets = len(frequent)
    kept = probability >= LEAST
    keys, probability = keys[kept], probability[kept]
    order = np.lexsort((-probability, keys // targets))
    keys = keys[order]
    offsets = offsets_of(np.bincount(keys // targets, minlength=sources))
    lists = Ragged((keys % targets).astype(np.int32), offsets)
    lexicon = Lexicon(lists, probability[order].astype(np.float16), frequent)
    return lexicon.narrowed(longest=LONGEST_LIST, least=0.0)


def _links(src: Ragged, tgt: Ragged, *, eos: int, targets: int) -> _Links:
    lengths = src.lengths + 1  # with the end of sentence
    flat = np.insert(src.flat.astype(np.int64), src.offsets[1:], eos)
    sentence = np.repeat(np.arange(len(tgt)), tgt.lengths)  # [T]
    count = lengths[sentence]  # [T] links of each target piece
    begin = offsets_of(count)[:-1]
    first = offsets_of(lengths)[:-1][sentence]  # [T] where its sentence's source begins
    source = flat[np.arange(count.sum()) - np.repeat(begin - first, count)]  # [L]
    return _Links(source * targets + np.repeat(tgt.flat.astype(np.int64), count), begin)


def _pairs(stores: Sequence[Store], sources: int, targets: int) -> Iterator[tuple[Ragged, Ragged]]:
    """Blocks of sentence pairs with some target pieces, to MOST_LINKS links in all."""
    links = [(store.lengths("src") + 1) * store.lengths("tgt") for store in stores]  # [samples] each
    is_large = sum(int(each.sum()) for each in links) > MOST_LINKS
    seen = (np.zeros(sources, dtype=np.int64), np.zeros(targets, dtype=np.int64))
    left = MOST_LINKS
    for store, own in zip(stores, links, strict=True):
        block = np.cumsum(own) // BLOCK_LINKS
        for rows in np.split(np.arange(len(own)), np.flatnonzero(np.diff(block)) + 1):
            sides = store.all_ids("src").take(rows), store.all_ids("tgt").take(rows)
            if is_large:
                wanted = np.flatnonzero(_is_rare(sides[0], seen[0]) | _is_rare(sides[1], seen[1]))
                wanted = wanted[np.cumsum(own[rows][wanted]) <= left]
                sides, rows = (sides[0].take(wanted), sides[1].take(wanted)), rows[wanted]
            left -= int(own[rows].sum())
            for side, counts in zip(sides, seen, strict=True):
                counts += _count(side.flat, len(counts))
            if len(sides[1].flat):
                yield sides


def _is_rare(rows: Ragged, seen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[R] whether a row has a piece that was not seen often yet."""
    sentence = np.repeat(np.arange(len(rows)), rows.lengths)
    return np.bincount(sentence[seen[rows.flat] < ENOUGH], minlength=len(rows)) > 0


def _count(ids: NDArray[Any], size: int) -> NDArray[np.int64]:
    """How often each id below `size` occurs."""
    counts = np.zeros(size, dtype=np.int64)
    for begin in range(0, len(ids), BLOCK_LINKS):
        counts += np.bincount(ids[begin : begin + BLOCK_LINKS], minlength=size)
    return counts
