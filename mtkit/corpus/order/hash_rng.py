"""Stateless random numbers: a key always gives the same numbers, on every machine and in any order of calls.

NumPy's generators are not used, because they have a state and their streams may change between versions.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

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


@overload
def splitmix64(bits: int) -> int: ...


@overload
def splitmix64(bits: NDArray[np.uint64]) -> NDArray[np.uint64]: ...


def splitmix64(bits: Any) -> Any:
    """The output function of SplitMix64 (Steele et al. 2014, "Fast splittable pseudorandom number generators")."""
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK64
    return bits ^ (bits >> 31)
