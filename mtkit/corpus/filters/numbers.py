"""Pairs with a number on one side alone."""

from __future__ import annotations

import re

from mtkit.corpus.filters.config import NumberFilterConfig
from mtkit.corpus.filters.filter import MAX_COMPARED, Filter

_NUMBER = re.compile(r"\d+(?:[.,'\u2019 \xa0\u202f]\d{3}(?!\d))*")
_DIGITS = re.compile(r"\d\d")


def _digits(text: str) -> str:
    """The digits of a text as ASCII."""
    return "".join(char if char.isascii() else str(int(char)) for char in text if char.isdecimal())


def numbers_differ(src: str, tgt: str) -> bool:
    """Return whether a number of two digits or more of one side is missing on the other, thousands marks apart."""
    sides = [
        {_digits(each).lstrip("0") for each in _NUMBER.findall(line)} if _DIGITS.search(line) else set()
        for line in (src, tgt)
    ]
    if sides[0] == sides[1]:
        return False
    digits = [_digits(line) for line in (src, tgt)]
    return any(len(each) > 1 and each not in digits[1 - side] for side in (0, 1) for each in sides[side])


class NumberFilter(Filter):
    """Pairs with a number on one side alone."""

    def __init__(self, config: NumberFilterConfig) -> None:
        pass

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The source, if the numbers differ."""
        return 0 if numbers_differ(src[:MAX_COMPARED], tgt[:MAX_COMPARED]) else None
