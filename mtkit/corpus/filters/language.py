"""Pairs in another language or script than the rest of the text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mtkit.corpus.filters.config import LanguageFilterConfig, ScriptFilterConfig
from mtkit.corpus.filters.filter import Context, Fault, Filter, PairBlock
from mtkit.corpus.language_groups import (
    GROUP,
    LINE_START,
    count_scripts,
    expected_language,
    lacks_script,
    languages_of,
    other_language,
    usual_script,
)
from mtkit.text.language import is_best_language

_GROUPS = 100  # of the sample, from which the languages of both sides are taken
# Share of words that are in two lines of the expected language, from which on a line is not classified; lines that
# such words are taken from. It halves the time, and 371 of 373 lines in other languages of three corpora are found.
_KNOWN, _LEARNED_LINES = 0.8, 20_000


def _groups(sample: PairBlock, side: int) -> list[str]:
    """The text of groups of lines that are spread over the sample."""
    starts = np.unique(np.linspace(0, max(0, len(sample) - GROUP), _GROUPS).astype(np.int64))
    texts = (" ".join(line[:LINE_START] for line in sample.sides[side][start : start + GROUP]) for start in starts)
    return [text for text in texts if any(map(str.isalpha, text))]


class ScriptFilter(Filter):
    """Pairs of which a side is written in another script than most of the text; none of a text of many scripts."""

    def __init__(self, config: ScriptFilterConfig) -> None:
        self._min_letters = config.min_letters
        self._usual: list[str | None] = []

    def learn(self, sample: PairBlock, context: Context) -> None:
        """Take the script of most lines."""
        self._usual = [usual_script(list(map(count_scripts, _groups(sample, side)))) for side in (0, 1)]

    def find(self, block: PairBlock) -> Iterator[Fault]:
        """Lines in another script."""
        for side, usual in enumerate(self._usual):
            for row, line in enumerate(block.sides[side] if usual is not None else ()):
                if len(line) < self._min_letters or (usual == "LATIN" and line.isascii()):
                    continue
                scripts = count_scripts(line[: 2 * LINE_START])
                if scripts.total() >= self._min_letters and lacks_script(scripts, str(usual)):
                    yield Fault(row, side, f"looks {scripts.most_common(1)[0][0].title()}")


class LanguageFilter(Filter):
    """Pairs of which a side is surely in another language; none of a side whose language the classifier lacks.

    Classification takes long: lines of known words are in the expected language without it.
    """

    def __init__(self, config: LanguageFilterConfig) -> None:
        self._min_letters = config.min_letters
        self._expected: list[str | None] = []
        self._seen: tuple[set[str], set[str]] = set(), set()
        self._known: tuple[set[str], set[str]] = set(), set()
        self._num_learned = [0, 0]

    def learn(self, sample: PairBlock, context: Context) -> None:
        """Take the language of most lines, unless it is stated."""
        groups = [[languages_of(text) for text in _groups(sample, side)] for side in (0, 1)]
        self._expected = [expected_language(*each) for each in zip(groups, context.langs, strict=True)]

    def find(self, block: PairBlock) -> Iterator[Fault]:
        """Lines in another language."""
        for side, expected in enumerate(self._expected):
            for row, line in enumerate(block.sides[side] if expected is not None else ()):
                start = line[:LINE_START]
                if sum(map(str.isalpha, start)) < self._min_letters or self._is_expected(start, side, str(expected)):
                    continue
                if (other := other_language(languages_of(start), str(expected))) is not None:
                    yield Fault(row, side, f"looks like {other}")

    def _is_expected(self, text: str, side: int, expected: str) -> bool:
        words = set(text.lower().split())
        seen, known = self._seen[side], self._known[side]
        if len(words & known) >= _KNOWN * len(words):
            return True
        if not is_best_language(text, expected):
            return False
        if self._num_learned[side] < _LEARNED_LINES:
            self._num_learned[side] += 1
            known |= words & seen
            seen |= words
        return True
