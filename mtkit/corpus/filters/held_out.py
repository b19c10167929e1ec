"""Pairs of which a side is in valid or test."""

from __future__ import annotations

from mtkit.corpus.filters.config import HeldOutFilterConfig
from mtkit.corpus.filters.filter import Context, Filter, PairBlock
from mtkit.corpus.split import HeldOutLines


class HeldOutFilter(Filter):
    """Pairs of which a side is in valid or test; none if no such set is known."""

    def __init__(self, config: HeldOutFilterConfig) -> None:
        self._lines = HeldOutLines(set(), set(), 0)

    def learn(self, sample: PairBlock, context: Context) -> None:
        """Take the lines of valid and test."""
        if context.held_out is not None:
            self._lines = context.held_out.lines

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The first side that is held out."""
        matches = self._lines.matches(src, tgt) if self._lines.src else (False, False)
        return matches.index(True) if any(matches) else None
