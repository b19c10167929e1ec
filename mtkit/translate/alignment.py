"""Word alignment of a translation, from attention."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

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


class Replacement(NamedTuple):
    """A stretch of a translation that was replaced; `start` counts the characters before it, as they were."""

    start: int
    old: str
    new: str


def moved_pairs(
    pairs: Iterable[tuple[int, int]], hyp: str, replacements: Sequence[Replacement]
) -> tuple[tuple[int, int], ...]:
    """Word pairs of a translation after stretches were replaced: new words have the links of all that they replace.

    Args:
        pairs: (source word, target word) as they were.
        hyp: the translation with the replacements.
        replacements: in order, without overlap.
    """
    stretches, shift, before = [], 0, hyp  # (start, end) as they were, (start, end) in hyp
    for start, old, new in replacements:
        stretches.append((start, start + len(old), start + shift, start + shift + len(new)))
        shift += len(new) - len(old)
    for (_, _, start, end), replacement in zip(reversed(stretches), reversed(replacements), strict=True):
        before = before[:start] + replacement.old + before[end:]
    old_words, new_words = ([match.span() for match in re.finditer(r"\S+", text)] for text in (before, hyp))
    starts, ends = [start for start, _ in new_words], [end for _, end in new_words]

    def moved(offset: int, *, is_end: bool) -> int:
        """Place of an offset in hyp; inside of a stretch it is the beginning or the end of the new one."""
        shift = 0
        for old_start, old_end, new_start, new_end in stretches:
            if offset <= old_start:
                break
            if offset < old_end:
                return new_end if is_end else new_start
            shift = new_end - old_end
        return offset + shift

    moved_links: set[tuple[int, int]] = set()
    for src_word, tgt_word in pairs:
        start, end = old_words[tgt_word]
        first = bisect_right(ends, moved(start, is_end=False))
        last = bisect_left(starts, moved(end, is_end=True))
        moved_links.update((src_word, word) for word in range(first, last))
    return tuple(sorted(moved_links))
