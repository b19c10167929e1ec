"""Pairs with a long side."""

from __future__ import annotations

from mtkit.corpus.filters.config import LengthFilterConfig
from mtkit.corpus.filters.filter import Filter


class LengthFilter(Filter):
    """Pairs with a side of more characters than a sentence has."""

    def __init__(self, config: LengthFilterConfig) -> None:
        self._limit = config.max_characters

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The longer side."""
        return int(len(tgt) > len(src)) if max(len(src), len(tgt)) > self._limit else None
