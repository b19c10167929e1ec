"""N-grams of many lines at once, of words or characters: how often each one occurs in each of several texts."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Texts = Sequence[Sequence[Sequence[str]]]  # lines of words, or lines that are text, whose characters count
MAX_BLOCK = 500_000  # words or characters of all texts that are counted at once; bounds memory
_MAX_KEY = 2**62


class NgramCounts(NamedTuple):
    """The R different n-grams of an order in some lines; an n-gram of two lines is counted for each.

    Attributes:
        counts: [R, K] occurrences in K texts.
        lines: [R] the line.
        units: words or characters of these lines of all texts.
        starts: [R] index of an occurrence in `units`.
    """

    order: int
    counts: Ints
    lines: Ints
    units: Sequence[str]
    starts: Ints

    def sum_by_line(self, values: Ints, num_lines: int) -> NDArray[np.float64]:
        """[L] sums of [R] values over the n-grams of each line."""
        return np.bincount(self.lines, weights=values, minlength=num_lines).astype(np.float64, copy=False)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep lists of words from being looked through for cycles: they have none, and it took 40% of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def count_ngrams(texts: Texts, max_order: int) -> Iterator[NgramCounts]:
    """Count the n-grams of K texts by line, of each order from 1, some lines at a time."""
    ends = np.cumsum(lengths_of(texts).sum(0))
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + MAX_BLOCK, side="right")))
        block = [text[start:stop] for text in texts]
        units, ids = _encode(block)
        for order, (counts, lines, starts) in enumerate(_count(ids, lengths_of(block), max_order), start=1):
            yield NgramCounts(order, counts, lines + start, units, starts)
        start = stop


def lengths_of(texts: Texts) -> Ints:
    """[K, L] words or characters of each line of each text."""
    return np.array([[*map(len, text)] for text in texts], dtype=np.int64).reshape(
        len(texts), len(texts[0]) if texts else 0
    )


def _encode(texts: Texts) -> tuple[Sequence[str], Ints]:
    """The N words or characters of texts, and their numbers [N], which are small: keys of n-grams have 62 bits."""
    if isinstance(texts[0][0], str):
        text = "".join(line for lines in cast(Sequence[Sequence[str]], texts) for line in lines)
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        is_used = np.zeros(int(codes.max(initial=0)) + 1, dtype=bool)
        is_used[codes] = True
        return text, (np.cumsum(is_used) - 1)[codes]
    words = [word for lines in texts for line in lines for word in line]
    ids: dict[str, int] = {}
    return words, np.fromiter((ids.setdefault(word, len(ids)) for word in words), dtype=np.int64, count=len(words))


def _count(ids: Ints, lengths: Ints, max_order: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Counts, lines and starts of each order, as in NgramCounts."""
    num_texts, num_lines = lengths.shape
    places = np.repeat(np.arange(lengths.size), lengths.ravel())  # [N] text and line
    size, limit = int(ids.max(initial=0)) + 1, num_lines
    starts, keys = np.arange(len(ids)), places % num_lines
    for order in range(1, max_order + 1):
        if limit * size > _MAX_KEY:
            keys = np.unique(keys, return_inverse=True)[1]
            limit = len(keys)
        is_inside = starts + order <= len(ids)
        is_inside[is_inside] = places[starts[is_inside]] == places[starts[is_inside] + order - 1]
        starts = starts[is_inside]
        keys, limit = keys[is_inside] * size + ids[starts + order - 1], limit * size
        ranked = np.argsort(keys)
        is_first = np.diff(keys[ranked], prepend=-1) != 0
        cells = (np.cumsum(is_first) - 1) * num_texts + places[starts[ranked]] // num_lines
        counts = np.bincount(cells, minlength=int(is_first.sum()) * num_texts).reshape(-1, num_texts)
        first = starts[ranked[is_first]]
        yield counts, places[first] % num_lines, first
