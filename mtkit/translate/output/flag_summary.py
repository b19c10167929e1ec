"""Summary of the flags of all lines: how many lines have each flag, and where the first ones are."""

from __future__ import annotations

from collections import Counter

from mtkit.translate.translation import Translation

MAX_LINES = 5  # line numbers that are listed for each flag
DESCRIPTIONS = {  # flag: what happened to the line, in the order of the summary
    "split": "split because they are longer than any training source",
    "long": "longer than any training source",
    "repetition": "ran into a loop",
    "limit": "cut off at the maximum length",
    "unknown": "with characters that the vocabulary lacks",
    "excluded": "with an excluded text",
}


class FlagSummary:
    """Counts the flags of translations."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, list[int]] = {flag: [] for flag in DESCRIPTIONS}
        self._num_flagged = self._num_lines = 0

    def add(self, translation: Translation) -> None:
        """Count the flags of a translation."""
        self._num_lines += 1
        self._num_flagged += bool(translation.flags)
        for flag in translation.flags:
            self._counts[flag] += 1
            if len(self._first[flag]) < MAX_LINES:
                self._first[flag].append(translation.line)

    def sentence(self) -> str | None:
        """One line, such as `2 of 40 lines are flagged: 2 ran into a loop (lines 7, 9)`; None if there are no flags."""
        if not self._num_flagged:
            return None
        groups = (self._group(flag) for flag in DESCRIPTIONS if self._counts[flag])
        verb = "lines are" if self._num_lines > 1 else "line is"
        return f"{self._num_flagged:,} of {self._num_lines:,} {verb} flagged: {'; '.join(groups)}"

    def _group(self, flag: str) -> str:
        count, first = self._counts[flag], self._first[flag]
        numbers = ", ".join(map(str, first)) + (", ..." if count > len(first) else "")
        return f"{count:,} {DESCRIPTIONS[flag]} (line{'s' if count > 1 else ''} {numbers})"
