"""Pairs of which a side repeats its words."""

from __future__ import annotations

from mtkit.corpus.filters.config import RepetitionFilterConfig
from mtkit.corpus.filters.filter import MAX_COMPARED, Filter

REPEATS = {16: 4, 8: 6}  # mean occurrences of a word, by the smallest number of words of the line


def is_repetitive(line: str) -> bool:
    """Return whether the words of a line occur several times each, as in the output of a model that loops."""
    words = line[:MAX_COMPARED].split() if len(line) > min(REPEATS) else []
    return any(len(words) >= max(least, mean * len(set(words))) for least, mean in REPEATS.items())


class RepetitionFilter(Filter):
    """Pairs of which a side repeats its words."""

    def __init__(self, config: RepetitionFilterConfig) -> None:
        pass

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The first side that repeats its words."""
        return 0 if is_repetitive(src) else 1 if is_repetitive(tgt) else None
