"""Randomness as a function: a key in, always the same numbers out, on every machine and in any order of asking.

NumPy's generators are not used here, because they have a state and may change between versions.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: the step of SplitMix64


_WORD = (1 << 64) - 1


_ROUNDS = 6  # of the Feistel network


_MIN_HALF = 3  # bits; in smaller networks not all permutations are equally likely


def keyed(*numbers: int) -> int:
    """One 64-bit number out of several: a hash in which every bit of every number counts."""
    state = len(numbers)
    for number in numbers:
        state = _mix(state ^ _mix((number + _GOLDEN) & _WORD))
    return state


def keyed_array(key: int, numbers: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    """[N] 64 random bits for each of the numbers [N]."""
    return _mix_array(_mix_array(numbers.astype(np.uint64) + np.uint64(_GOLDEN)) ^ np.uint64(key))


@overload
def unit(bits: int) -> float: ...


@overload
def unit(bits: NDArray[np.uint64]) -> NDArray[np.float64]: ...


def unit(bits: int | NDArray[np.uint64]) -> float | NDArray[np.float64]:
    """64 random bits as a number from 0 to less than 1."""
    if isinstance(bits, int):
        return (bits >> 11) / (1 << 53)
    return (bits >> np.uint64(11)) / float(1 << 53)


def shuffled(count: int, key: int) -> NDArray[np.int64]:
    """[count] the numbers below `count` in an order given by the key; takes O(count) memory."""
    return np.argsort(keyed_array(key, np.arange(count)), kind="stable")


def permute(numbers: NDArray[np.integer[Any]], size: int, key: int) -> NDArray[np.int64]:
    """[N] where a permutation of 0 ... size - 1, chosen by the key, sends the given numbers [N], each below `size`.

    Nothing of size `size` is built, so one place of a permutation of a billion costs what one place of ten does. A
    balanced Feistel network permutes the powers of four; numbers that it sends beyond `size` go through it again
    until they are inside ("cycle walking"). Black & Rogaway 2002, "Ciphers with arbitrary finite domains", sec. 3-4.
    """
    half = max(_MIN_HALF, ((size - 1).bit_length() + 1) // 2)
    keys = [np.uint64(keyed(key, turn)) for turn in range(_ROUNDS)]
    result = _feistel(numbers.astype(np.uint64), half, keys)
    outside = np.flatnonzero(result >= size)
    while len(outside):
        result[outside] = _feistel(result[outside], half, keys)
        outside = outside[result[outside] >= size]
    return result.astype(np.int64)


def _feistel(numbers: NDArray[np.uint64], half: int, keys: list[np.uint64]) -> NDArray[np.uint64]:
    low = np.uint64((1 << half) - 1)
    left, right = numbers >> np.uint64(half), numbers & low
    for key in keys:
        left, right = right, left ^ (_mix_array(right ^ key) & low)
    return (left << np.uint64(half)) | right


def _mix(number: int) -> int:
    """The output function of SplitMix64 (Steele et al. 2014, "Fast splittable pseudorandom number generators")."""
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _WORD
    return number ^ (number >> 31)


def _mix_array(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`_mix` for every element."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
