"""Pairs with bytes or characters that are no text."""

from __future__ import annotations

from collections.abc import Iterator

from mtkit.corpus.filters.config import CharacterFilterConfig
from mtkit.corpus.filters.filter import Fault, Filter, PairBlock

HARMFUL = ("not_utf8", "control", "replacement", "mojibake")  # line breaks may stand in good sentences


class CharacterFilter(Filter):
    """Pairs with bytes that are not UTF-8, replacement, control and private characters, or UTF-8 read as Latin-1."""

    def __init__(self, config: CharacterFilterConfig) -> None:
        pass

    def find(self, block: PairBlock) -> Iterator[Fault]:
        """Pairs of which the reader recorded such characters."""
        for kind, side, row in block.odd:
            if kind in HARMFUL:
                yield Fault(row, side, kind)
