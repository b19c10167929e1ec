"""Pairs that occur before."""

from __future__ import annotations

import hashlib
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.filters.config import DuplicateFilterConfig
from mtkit.corpus.filters.filter import Fault, Filter, PairBlock


class DuplicateFilter(Filter):
    """Pairs that occur before, by hashes of 64 bits; memory for 8 bytes a pair, and 24 more at the end."""

    is_late: ClassVar[bool] = True

    def __init__(self, config: DuplicateFilterConfig) -> None:
        self._hashes: list[NDArray[np.int64]] = []

    def find(self, block: PairBlock) -> tuple[Fault, ...]:
        """Nothing yet; the pairs are hashed."""
        pairs = zip(block.src, block.tgt, strict=True)
        digests = b"".join(_digest(f"{len(src)}\0{src}\0{tgt}") for src, tgt in pairs)
        self._hashes.append(np.frombuffer(digests, dtype=np.int64))
        return ()

    def first_occurrence(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """[M] of pairs of these numbers [M], sorted, the number of the first equal one."""
        hashes = np.concatenate([np.empty(0, np.int64), *self._hashes])[numbers]
        _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        return np.asarray(numbers[first[inverse]])

    def find_late(self, is_kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Pairs that are equal to an earlier one which is kept."""
        numbers = np.flatnonzero(is_kept)
        return np.asarray(numbers[self.first_occurrence(numbers) < numbers])


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
