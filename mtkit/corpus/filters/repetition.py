"""Pairs of which a side repeats its words."""

from __future__ import annotations

from mtkit.corpus.filters.config import RepetitionFilterConfig
from mtkit.corpus.filters.filter import MAX_COMPARED, Filter

REPEATS, MIN_REPEATED = 4, 16  # mean occurrences of a word in a line of this many words


def is_repetitive(line: str) -> bool:
    """Return whether the words of a line occur several times each, as in the output of a model that loops."""
    if len(line) <= 2 * MIN_REPEATED:
        return False
    words = line[:MAX_COMPARED].split()
    return len(words) >= MIN_REPEATED and len(words) >= REPEATS * len(set(words))


class RepetitionFilter(Filter):
    """Pairs of which a side repeats its words."""

    def __init__(self, config: RepetitionFilterConfig) -> None:
        pass

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The first side that repeats its words."""
        return 0 if is_repetitive(src) else 1 if is_repetitive(tgt) else None
