"""Filters of pairs that occur before, and of those that hardly differ from an earlier one."""

from __future__ import annotations

import hashlib
import tempfile
import weakref
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.filters.config import DuplicateFilterConfig, NearDuplicateFilterConfig
from mtkit.corpus.filters.filter import MAX_COMPARED, Fault, Filter, PairBlock
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.sentence_alignment import hash_words
from mtkit.io.files import translate_write_errors

BANDS, ROWS = 8, 8
_SIZE = BANDS * ROWS  # bytes of a pair
_CHUNK = 1 << 18  # pairs that are read or compared at a time
_FACTORS = np.random.default_rng(0).integers(1 << 62, size=_SIZE, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_PREVIOUS, _NEXT, _TARGET = (np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))


class DuplicateFilter(Filter):
    """Pairs that occur before, by hashes of 64 bits; memory for 8 bytes a pair, and 24 more at the end."""

    is_late: ClassVar[bool] = True

    def __init__(self, config: DuplicateFilterConfig) -> None:
        self._hashes: list[NDArray[np.int64]] = []

    def find(self, block: PairBlock) -> tuple[Fault, ...]:
        """Nothing yet; the pairs are hashed."""
        pairs = zip(block.src, block.tgt, strict=True)
        texts = (f"{len(src)}\0{src}\0{tgt}".encode(errors="surrogatepass") for src, tgt in pairs)
        digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
        self._hashes.append(np.frombuffer(digests, dtype=np.int64))
        return ()

    def first_occurrence(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """[M] of pairs of these numbers [M], sorted, the number of the first equal one."""
        return _first_equal(numbers, np.concatenate([np.empty(0, np.int64), *self._hashes]))

    def find_late(self, is_kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Pairs that are equal to an earlier one which is kept."""
        numbers = np.flatnonzero(is_kept)
        return np.asarray(numbers[self.first_occurrence(numbers) < numbers])


def _first_equal(numbers: NDArray[np.int64], hashes: NDArray[np.generic]) -> NDArray[np.int64]:
    """[M] the first of the numbers [M], which are sorted, whose hash is the same as that of each."""
    order = numbers[np.argsort(hashes[numbers], kind="stable")]
    is_first = np.concatenate([[True], hashes[order[1:]] != hashes[order[:-1]]])[: len(order)]
    starts = np.flatnonzero(is_first)
    result = np.empty(len(hashes), dtype=np.int64)
    result[order] = np.repeat(order[starts], np.diff(starts, append=len(order)))
    return result[numbers]


class NearDuplicateFilter(Filter):
    """Pairs that hardly differ from an earlier one: MinHash (Broder 1997) with banding.

    Of each pair of neighbouring words of a side, 64 hash functions are computed, and of each function the lowest byte
    of its minimum is stored (b-bit minwise hashing, Li and König 2010, https://doi.org/10.1145/1772690.1772759). Pairs
    with eight equal bytes in one of eight bands are compared. The bytes are in a temporary file, and one band is sorted
    at a time: 64 bytes a pair on disk, and about 32 in memory.
    """

    is_late: ClassVar[bool] = True

    def __init__(self, config: NearDuplicateFilterConfig) -> None:
        self._min_similarity = config.min_similarity
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the object)
        weakref.finalize(self, self._file.close)
        self._has_words: list[NDArray[np.bool_]] = []

    def find(self, block: PairBlock) -> tuple[Fault, ...]:
        """Nothing yet; the pairs are hashed.

        Raises:
            ReadWriteError: the folder of temporary files is full.
        """
        words = [hash_words([line[:MAX_COMPARED] for line in side]) for side in block.sides]
        with translate_write_errors(Path(tempfile.gettempdir())):
            self._file.write(_signatures(*words).tobytes())
        self._has_words.append((words[0].lengths > 0) & (words[1].lengths > 0))
        return ()

    def find_late(self, is_kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Pairs that hardly differ from an earlier one which is kept."""
        with translate_write_errors(Path(tempfile.gettempdir())):
            self._file.flush()
        if not len(is_kept):
            return np.empty(0, dtype=np.int64)
        stored: Any = np.memmap(self._file, dtype=np.uint8, mode="r", shape=(len(is_kept), _SIZE))
        has_words = is_kept & np.concatenate(self._has_words)
        is_open = has_words.copy()
        for band in range(BANDS):
            keys = np.concatenate([
                np.ascontiguousarray(stored[start : start + _CHUNK, band * ROWS : (band + 1) * ROWS]).view(np.uint64)
                for start in range(0, len(is_kept), _CHUNK)
            ])[:, 0]  # fmt: skip
            numbers = np.flatnonzero(is_open)
            first = _first_equal(numbers, keys)
            candidates, earlier = numbers[first < numbers], first[first < numbers]
            for start in range(0, len(candidates), _CHUNK):
                one, other = (each[start : start + _CHUNK] for each in (candidates, earlier))
                equal = (stored[one] == stored[other]).mean(axis=1)
                # unequal minima have equal bytes once in 256
                is_open[one[(equal - 1 / 256) / (1 - 1 / 256) >= self._min_similarity - 1e-9]] = False
        return np.flatnonzero(has_words & ~is_open)


def _signatures(src: Ragged, tgt: Ragged) -> NDArray[np.uint8]:
    """[N, 64] the lowest bytes of the minima of each pair's hash functions, from the words of its sides."""
    sides = _neighbours(src, np.uint64(1)), _neighbours(tgt, _TARGET)
    result = np.empty((len(src), _SIZE), dtype=np.uint8)
    for column, factor in enumerate(_FACTORS if len(src) else ()):
        minima = [np.minimum.reduceat((side.flat * factor) >> np.uint64(32), side.offsets[:-1]) for side in sides]
        result[:, column] = np.minimum(*minima).astype(np.uint8)
    return result


def _neighbours(words: Ragged, factor: np.uint64) -> Ragged:
    """Hashes, times a factor, of each two neighbouring words of each line; its borders count as words."""
    ends = words.offsets[1:] + np.arange(len(words))
    following = np.insert(words.flat.astype(np.uint64), words.offsets[1:], 0)  # each line ends with a 0
    previous = np.concatenate([np.zeros(1, np.uint64), following[:-1]])
    mixed = (previous * _PREVIOUS) ^ ((following + np.uint64(1)) * _NEXT)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * _PREVIOUS
    return Ragged((mixed ^ (mixed >> np.uint64(29))) * factor, np.concatenate([[0], ends + 1]))
