"""Pairs with an address of the web on one side alone."""

from __future__ import annotations

import re

from mtkit.corpus.filters.config import AddressFilterConfig
from mtkit.corpus.filters.filter import MAX_COMPARED, Filter

_URL = re.compile(r"https?://[^\s<>\"')\]]+")


class AddressFilter(Filter):
    """Pairs with an address of the web on one side alone."""

    def __init__(self, config: AddressFilterConfig) -> None:
        pass

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The source, if the addresses differ."""
        if "://" not in src and "://" not in tgt:
            return None
        one, other = (
            {each.rstrip(".,;:!?").lower() for each in _URL.findall(line[:MAX_COMPARED])} for line in (src, tgt)
        )
        return 0 if one != other else None
