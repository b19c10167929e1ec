"""Reports of a translation to a file: progress on stderr, and the number of lines that have each flag."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from mtkit.display import format_clock
from mtkit.translate.translation import Translation

TERMINAL_SECONDS = 1.0  # between two updates of the line at a terminal
LOG_SECONDS = 30.0  # between two lines in a file or pipe
_CLEAR = "\r\x1b[K"  # erases the line of a terminal


class TranslationProgress:
    """Reports progress: a line that is redrawn each second at a terminal, otherwise a new line every 30 seconds.

    The rate is that of all lines since the start, without those that were skipped by resuming. Translations arrive
    together, a window of lines at a time: a report counts those before the one that just arrived, whose window may not
    be complete. `with` erases the line at the end, so that an error does not stand behind it.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        is_terminal: bool,
        count_lines: Callable[[], int | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the parts.

        Args:
            stream: stderr.
            is_terminal: whether a line of the stream can be redrawn.
            count_lines: returns the number of source lines, None if it is unknown; called once, at the first report.
            clock: returns seconds.
        """
        self._stream, self._is_terminal = stream, is_terminal
        self._count_lines, self._clock = count_lines, clock
        self._interval = TERMINAL_SECONDS if is_terminal else LOG_SECONDS
        self._start = self._last = self._arrived = clock()
        self._count = self._line = 0
        self._total: int | None = None
        self._has_reported = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._has_reported and self._is_terminal:
            self._stream.write(_CLEAR)
            self._stream.flush()

    def add(self, translation: Translation) -> None:
        """Count a translation, and report if it is time."""
        now = self._clock()
        if self._count == 0:
            self._last = now
        elif now - self._last >= self._interval:
            self._last = now
            self._report(now)
        self._count, self._line, self._arrived = self._count + 1, translation.line, now

    def _report(self, now: float) -> None:
        """Write what was done when the last translation arrived."""
        if not self._has_reported:
            self._total = self._count_lines()
            self._has_reported = True
        text = self._describe(now)
        self._stream.write(f"{_CLEAR}{text}\r" if self._is_terminal else f"{text}\n")
        self._stream.flush()

    def _describe(self, now: float) -> str:
        """Such as `1,200 of 30,000 lines, 85 lines/s, 5:39 left`."""
        rate = self._count / max(self._arrived - self._start, 1e-6)
        shown_rate = f"{rate:,.0f} lines/s" if rate >= 10 else f"{rate:.1f} lines/s"
        if self._total is None:
            return f"{self._line:,} lines, {shown_rate}"
        left = max(0.0, (self._total - self._line) / rate - (now - self._arrived))
        return f"{self._line:,} of {self._total:,} lines, {shown_rate}, {format_clock(left)} left"


MAX_LINES = 5  # line numbers that are listed for each flag
DESCRIPTIONS = {  # flag: what happened to the line, in the order of the summary
    "split": "split because they are longer than any training source",
    "long": "longer than any training source",
    "repetition": "ran into a loop",
    "limit": "cut off at the maximum length",
    "short": "far shorter than their source",
    "unknown": "with characters that the vocabulary lacks",
    "excluded": "with an excluded text",
    "missing": "without a URL, placeholder, name or other text of their source",
    "numbers": "with other numbers than their source",
    "message": "left as they are, since they begin like messages of ICU and cannot be read as such",
    "terms": "without an allowed form of a term",
}


class FlagSummary:
    """Counts the flags of translations."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, list[int]] = {flag: [] for flag in DESCRIPTIONS}
        self._num_flagged = self._num_lines = self._num_terms = self._num_honoured = 0

    def add(self, translation: Translation) -> None:
        """Count the flags of a translation."""
        self._num_lines += 1
        self._num_flagged += bool(translation.flags)
        self._num_terms += len(translation.terms)
        self._num_honoured += sum(bool(form) for _, form in translation.terms)
        for flag in translation.flags:
            self._counts[flag] += 1
            if len(self._first[flag]) < MAX_LINES:
                self._first[flag].append(translation.line)

    def terms(self) -> str | None:
        """One line about the terms of a glossary; None if the text has none."""
        if not self._num_terms:
            return None
        return f"{self._num_honoured:,} of {self._num_terms:,} terms of the glossary are in an allowed form"

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
