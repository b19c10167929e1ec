"""Lines with the same words: in any order and without signs, or except for one word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.lenient_reading import pair_blocks
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.sentence_alignment import TokenLines, hash_token
from mtkit.corpus.split import MIN_CHARACTERS, HeldOutLines

FEW_WORDS = 5  # of a side that is compared except for one word
_MIX = np.uint64(0x9E3779B97F4A7C15)


def _mixed(tokens: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """[S] 64 bits of each word; 0 of each ASCII sign, so that sums leave signs out."""
    values = tokens.astype(np.uint64) * _MIX
    values = (values ^ (values >> np.uint64(29))) * _MIX
    values[np.isin(tokens, _SIGNS)] = 0
    return values


_SIGNS = np.array([hash_token(chr(each)) for each in range(33, 127) if not chr(each).isalnum()], dtype=np.uint32)


def bag_hashes(lines: Ragged) -> NDArray[np.uint64]:
    """[N] a hash of the words of each line in any order, without signs; 0 without words."""
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(lines.flat), dtype=np.uint64)])
    return np.asarray(sums[lines.offsets[1:]] - sums[lines.offsets[:-1]])


class HeldOutText:
    """Pairs of valid and test, by hashes: equal ones, and those that differ by a word.

    Args:
        pairs: pairs of lines.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.lines = HeldOutLines(set(), set(), MIN_CHARACTERS)
        tokens = TokenLines(), TokenLines()
        for block in pair_blocks(iter(pairs)):
            for pair in block:
                self.lines.add(str(pair[0]), str(pair[1]))
            for side in (0, 1):
                tokens[side].append([str(pair[side]) for pair in block])
        self._near = [np.unique(_variants(side.read().tokens)[0]) for side in tokens]

    def are_near(self, tokens: Sequence[Ragged]) -> NDArray[np.bool_]:
        """[N] whether each side of a pair is a held-out one, except for at most one word."""
        result = np.ones(len(tokens[0]), dtype=bool)
        for side, known in zip(tokens, self._near, strict=True):
            hashes, line = _variants(side)
            result[np.setdiff1d(np.arange(len(side)), line[np.isin(hashes, known)])] = False
        return result


def _variants(lines: Ragged) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hashes of the words of each line, all and without one of them, and their lines; of lines of FEW_WORDS words."""
    words, bags = _mixed(lines.flat), bag_hashes(lines)
    line = np.repeat(np.arange(len(lines)), lines.lengths)
    is_long = lines.lengths >= FEW_WORDS
    is_word = is_long[line] & (words != 0)
    hashes = np.concatenate([bags[is_long], bags[line[is_word]] - words[is_word]])
    return hashes, np.concatenate([np.flatnonzero(is_long), line[is_word]])
