"""Stateless random numbers: a key always gives the same numbers, on every machine and in any order of calls.

NumPy's generators are not used, because they have a state and their streams may change between versions. The numbers
of a row of a batch (`RowRandom`) depend on the row's key alone: a sentence is corrupted in the same way in any batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.order.ragged import lengths_to_offsets

IntArray = NDArray[np.int64]
Bits = TypeVar("Bits", int, NDArray[np.uint64])

_GOLDEN_GAMMA = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: the increment of SplitMix64
_MASK64 = (1 << 64) - 1
_ROUNDS = 6  # of the Feistel network
_MIN_HALF_BITS = 3  # in smaller networks not all permutations are equally likely


def hash_seed(*numbers: int) -> int:
    """A 64-bit seed from several numbers: a hash to which every bit of every number contributes."""
    state = len(numbers)
    for number in numbers:
        state = splitmix64(state ^ splitmix64((number + _GOLDEN_GAMMA) & _MASK64))
    return state


def hash_array(key: int, numbers: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    """[N] 64 random bits for each of the numbers [N]."""
    return splitmix64(splitmix64(numbers.astype(np.uint64) + np.uint64(_GOLDEN_GAMMA)) ^ np.uint64(key))


@overload
def uniform01(bits: int) -> float: ...


@overload
def uniform01(bits: NDArray[np.uint64]) -> NDArray[np.float64]: ...


def uniform01(bits: int | NDArray[np.uint64]) -> float | NDArray[np.float64]:
    """64 random bits as a number in [0, 1)."""
    if isinstance(bits, int):
        return (bits >> 11) / (1 << 53)
    return (bits >> np.uint64(11)) / float(1 << 53)


def shuffle(count: int, key: int) -> NDArray[np.int64]:
    """[count] a permutation of the numbers below `count`; takes O(count) memory (see `permute`)."""
    return np.argsort(hash_array(key, np.arange(count)), kind="stable")


def permute(numbers: NDArray[np.integer[Any]], size: int, key: int) -> NDArray[np.int64]:
    """[N] images of the numbers [N] under the key's pseudorandom permutation of 0 ... size - 1.

    Memory and time are O(N), independent of `size`. A balanced Feistel network permutes the next power of four;
    numbers that it maps beyond `size` go through it again until they are inside ("cycle walking"). Black & Rogaway
    2002, "Ciphers with arbitrary finite domains", sec. 3-4.
    """
    half_bits = max(_MIN_HALF_BITS, ((size - 1).bit_length() + 1) // 2)
    round_keys = [np.uint64(hash_seed(key, number)) for number in range(_ROUNDS)]
    result = _feistel(numbers.astype(np.uint64), half_bits, round_keys)
    outside = np.flatnonzero(result >= size)
    while len(outside):
        result[outside] = _feistel(result[outside], half_bits, round_keys)
        outside = outside[result[outside] >= size]
    return result.astype(np.int64)


def _feistel(numbers: NDArray[np.uint64], half_bits: int, round_keys: list[np.uint64]) -> NDArray[np.uint64]:
    low = np.uint64((1 << half_bits) - 1)
    left, right = numbers >> np.uint64(half_bits), numbers & low
    for key in round_keys:
        left, right = right, left ^ (splitmix64(right ^ key) & low)
    return (left << np.uint64(half_bits)) | right


def splitmix64(bits: Bits) -> Bits:
    """The output function of SplitMix64 (Steele et al. 2014, "Fast splittable pseudorandom number generators")."""
    state: Any = bits
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK64
    return cast(Bits, state ^ (state >> 31))


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

    def choose_k(self, lengths: IntArray, k: IntArray, stream: int) -> NDArray[np.bool_]:
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


def ragged_index(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Row and column of every element of concatenated rows of these lengths [R]."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return row, np.arange(len(row)) - np.repeat(lengths_to_offsets(lengths)[:-1], lengths)
