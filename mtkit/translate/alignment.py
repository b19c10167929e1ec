"""Word alignment of a translation, from attention."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mtkit.text.normalise import SPACE_MARK


def words_of(tokens: Sequence[str]) -> list[int]:
    """Index of the word of each token: the first word of which it contains a character; -1 for white space only."""
    indices: list[int] = []
    word, inside = -1, False
    for token in tokens:
        index = -1
        for character in token:
            if character == SPACE_MARK or character.isspace():
                inside = False
                continue
            word += not inside
            inside = True
            index = word if index < 0 else index
        indices.append(index)
    return indices


def links_of(attention: NDArray[np.float32], src_length: int) -> list[tuple[int, int]]:
    """Pairs (source token, target token): each target token with the source token that it attends to most.

    Args:
        attention: [T, S], attention of T target tokens over at least `src_length` source positions.
        src_length: source tokens without the end of sentence, to which nothing is linked.
    """
    if src_length == 0:
        return []
    return [(s, t) for t, s in enumerate(attention[:, :src_length].argmax(1).tolist())]


def word_pairs(links: Iterable[tuple[int, int]], src: Sequence[str], tgt: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Pairs (source word, target word) in order, from pairs of token indices and the tokens as strings."""
    src_word, tgt_word = words_of(src), words_of(tgt)
    pairs = {(src_word[s], tgt_word[t]) for s, t in links}
    return tuple(sorted((s, t) for s, t in pairs if s >= 0 and t >= 0))
