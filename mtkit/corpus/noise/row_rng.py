"""Random numbers for ragged rows, vectorised over all rows; the numbers of a row depend on its own key alone.

So a sentence is corrupted in the same way in any batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.order.hash_rng import hash_array, hash_seed, uniform01
from mtkit.corpus.order.ragged import lengths_to_offsets

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class RowRandom:
    """Random numbers for R rows.

    Every method takes a `stream`: different streams give independent numbers.

    Attributes:
        keys: [R] 64 random bits for each row.
    """

    keys: NDArray[np.uint64]

    @classmethod
    def of(cls, seed: int, sample_ids: IntArray, epochs: IntArray) -> RowRandom:
        """Random numbers for the samples [R] of a corpus, each in its epoch [R]."""
        return cls(hash_array(hash_seed(seed), hash_array(seed, sample_ids) ^ epochs.astype(np.uint64)))

    def uniform(self, lengths: IntArray, stream: int) -> NDArray[np.float64]:
        """`lengths` [R] numbers in [0, 1) for each row, concatenated."""
        row, column = ragged_index(lengths)
        return uniform01(hash_array(hash_seed(stream), self.keys[row] + column.astype(np.uint64)))

    def choose_k(self, lengths: IntArray, k: IntArray, stream: int) -> BoolArray:
        """For rows of `lengths` [R] elements, concatenated: True at `k` [R] of each, all choices equally likely."""
        row, column = ragged_index(lengths)
        order = np.lexsort((self.uniform(lengths, stream), row))
        chosen = np.zeros(len(row), dtype=bool)
        chosen[order] = column < k[row]  # rows keep their places in `order`, so that row and column apply to it too
        return chosen

    def random_partition(self, lengths: IntArray, num_parts: IntArray, stream: int) -> IntArray:
        """Cut rows of `lengths` [R] elements into `num_parts` [R] parts; returns the lengths of all parts, flat.

        No part is empty, except in an empty row. All ways of cutting are equally likely.
        """
        row, column = ragged_index(lengths)
        starts_part = np.zeros(len(row), dtype=bool)  # the second and further parts of each row
        starts_part[column > 0] = self.choose_k(np.maximum(lengths - 1, 0), num_parts - 1, stream)
        before = lengths_to_offsets(np.bincount(row[starts_part], minlength=len(lengths)))[:-1]  # [R] in rows above
        part = lengths_to_offsets(num_parts)[:-1][row] + np.cumsum(starts_part) - before[row]
        return np.bincount(part, minlength=int(num_parts.sum()))


class RaggedIndex(NamedTuple):
    """The row and the column of every element of concatenated rows."""

    row: IntArray
    column: IntArray


def ragged_index(lengths: IntArray) -> RaggedIndex:
    """Row and column of every element of rows of these lengths [R]."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return RaggedIndex(row, np.arange(len(row)) - np.repeat(lengths_to_offsets(lengths)[:-1], lengths))
