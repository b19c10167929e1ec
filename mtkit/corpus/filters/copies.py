"""Pairs whose sides are equal."""

from __future__ import annotations

from mtkit.corpus.filters.config import CopyFilterConfig
from mtkit.corpus.filters.filter import Filter
from mtkit.corpus.line_shift import split_tokens
from mtkit.corpus.split import normalised

_MAX_CHARACTERS = 4000  # of a line whose words are counted


class CopyFilter(Filter):
    """Pairs whose sides are equal, apart from spaces and capitals."""

    def __init__(self, config: CopyFilterConfig) -> None:
        self._min_words = config.min_words

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The source, if the target is the same; of scripts without spaces, characters count as words."""
        if src != tgt and normalised(src) != normalised(tgt):
            return None
        words = sum(any(map(str.isalnum, token)) for token in split_tokens(src[:_MAX_CHARACTERS]))
        return 0 if words >= self._min_words else None
