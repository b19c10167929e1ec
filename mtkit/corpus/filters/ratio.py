"""Pairs whose lengths differ more than usual."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mtkit.corpus.filters.config import RatioFilterConfig
from mtkit.corpus.filters.filter import Context, Fault, Filter, PairBlock
from mtkit.corpus.split import are_odd, usual_ratio


class RatioFilter(Filter):
    """Pairs of which a side is much longer than usual for the other one."""

    def __init__(self, config: RatioFilterConfig) -> None:
        self._max_ratio = config.max_ratio
        self._usual = 1.0

    def learn(self, sample: PairBlock, context: Context) -> None:
        """Take the median ratio."""
        self._usual = usual_ratio(sample.characters)

    def find(self, block: PairBlock) -> Iterator[Fault]:
        """Pairs with another ratio."""
        for row in np.flatnonzero(are_odd(block.characters, self._usual, self._max_ratio)):
            yield Fault(int(row))
