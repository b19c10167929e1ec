"""Pairs with a blank side."""

from __future__ import annotations

from mtkit.corpus.filters.config import EmptyFilterConfig
from mtkit.corpus.filters.filter import Filter


class EmptyFilter(Filter):
    """Pairs with a blank side."""

    def __init__(self, config: EmptyFilterConfig) -> None:
        pass

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The blank side."""
        return None if src.strip() and tgt.strip() else int(bool(src.strip()))
