"""Translate lines to stdout or to files that can be resumed, with reports of progress and of flags.

With `-o FILE` the lines go to `FILE.part`, which is renamed to `FILE` once it is complete. After an error, an
interruption or a kill, `FILE.part` keeps the finished lines, and a later call can resume after them. It continues at
the beginning of a window of lines, so that its batches are those of an uninterrupted translation, and so is its output.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from mtkit.display import format_clock
from mtkit.errors import DataError
from mtkit.io.files import translate_write_errors
from mtkit.io.json_text import finite
from mtkit.io.part_file import PartFile, open_part_file
from mtkit.translate.lines import ConstrainedLine, Line, read_windows, text_of
from mtkit.translate.translation import FLAGS, Alternative, Translation, TranslationOptions
from mtkit.translate.workers import Cluster, LineTranslator, translator_pool, window_options

Format = Callable[[Translation, Line], str | None]  # a line about a translation, None for no line
Destination = tuple[Path | None, Format]  # a file, device or pipe, or None for stdout; and what is written there
SEPARATOR = " ||| "


def as_text(translation: Translation, source: Line) -> str:
    """The translation alone."""
    return translation.hyp


def as_n_best(translation: Translation, source: Line) -> str:
    """The n best translations, a line each: `LINE ||| TRANSLATION ||| SCORE`, with lines from 1.

    A blank line has one, with score 0.
    """
    number = str(translation.line)
    return "\n".join(SEPARATOR.join((number, each.hyp, f"{each.score:.6f}")) for each in _alternatives(translation))


def as_moses_n_best(translation: Translation, source: Line) -> str:
    """The n best translations as Moses and Marian write them: `0 ||| TRANSLATION ||| LogProb= -1.5 ||| SCORE`.

    `|||` within a translation is written `| | |`: the form has no escape, and its readers split at each `|||`.
    """
    number = str(translation.line - 1)
    rows = []
    for each in _alternatives(translation):
        hyp = re.sub(r"\|{3,}", lambda bars: " ".join(bars[0]), each.hyp)
        rows.append(SEPARATOR.join((number, hyp, f"LogProb= {each.log_prob:.6f}", f"{each.score:.6f}")))
    return "\n".join(rows)


def _alternatives(translation: Translation) -> Sequence[Alternative]:
    return translation.nbest or (Alternative(hyp=translation.hyp, score=0.0, log_prob=0.0),)


def as_json(translation: Translation, source: Line) -> str:
    """A JSON object with all fields; those of a source line that was JSON come first, as they are written there."""
    fields = source.json_text.strip().removesuffix("}").rstrip() if isinstance(source, ConstrainedLine) else ""
    result = _dumps(translation.as_dict())
    return f"{fields}, {result.removeprefix('{')}" if fields else result


def as_alignment(translation: Translation, source: Line) -> str:
    """The word alignment in Pharaoh form: `0-0 1-2`, source word and target word, counted from 0."""
    return " ".join(f"{src}-{tgt}" for src, tgt in translation.alignment)


def as_flag_record(translation: Translation, source: Line) -> str | None:
    """A JSON object about a flagged line: its number, flags, texts and words; None for a line without flags."""
    if not translation.flags:
        return None
    record = {"line": translation.line, "flags": translation.flags, "src": text_of(source), "hyp": translation.hyp}
    words = {"dropped": translation.dropped, "invented": translation.invented}
    return _dumps({**record, **{name: value for name, value in words.items() if value}})


def _dumps(fields: dict[str, object]) -> str:
    """One line of JSON; numbers that are not finite, which JSON cannot represent, are null."""
    return json.dumps(finite(fields), ensure_ascii=False, allow_nan=False)


def translate_to_file(
    load: Callable[[], LineTranslator],
    lines: Iterable[Line],
    destinations: Sequence[Destination],
    *,
    header: Mapping[str, Any],
    resume: bool = False,
    first_line: int = 1,
    reports: Sequence[Callable[[Translation], None]] = (),
    num_workers: int = 1,
    flush_every: int | None = None,
    cluster: Cluster | None = None,
) -> None:
    """Translate lines and write one line for each, in order, as soon as it is translated.

    Args:
        load: builds the translator, once in each worker process (see WorkerPool).
        lines: the source lines.
        destinations: where and how translations are written; those that are files become complete together.
        header: the settings that the translations depend on; see `open_part_file`.
        resume: continue FILE.part of the first file; ignored if there is none.
        first_line: number of the first of the lines.
        reports: called with each translation once it is written.
        num_workers: worker processes; 1 translates in this process.
        flush_every: number of lines after which translations appear.
        cluster: translates instead of this machine.

    Raises:
        BusyError: another process is writing the same file.
        DataError: FILE.part is of another text, model or settings, or reading `lines` or `Translator.translate` failed.
        UsageError: FILE.part is a link, a folder, a device or a pipe.
        ReadWriteError: the output cannot be written.
    """
    windows = HashedWindows(iter(lines), window_options(num_workers, flush_every, cluster), first_line - 1)
    files = [(path, text) for path, text in destinations if path is not None and not is_stream(path)]
    with ExitStack() as stack:
        part: PartFile | None = None
        if files:
            path, *beside = [path for path, _ in files]
            part = stack.enter_context(open_part_file(path, header, beside=beside, resume=resume))
        streams = [
            (stack.enter_context(open_stream(path)), text)
            for path, text in destinations
            if path is None or is_stream(path)
        ]
        if part is not None:
            windows.skip(part)
            first_line += part.resumed.lines
        translate = stack.enter_context(translator_pool(load, num_workers, flush_every=flush_every, cluster=cluster))
        for translation in translate(windows.lines(), first=first_line):
            source = windows.waiting.pop(translation.line)
            streamed = [(stream, text(translation, source)) for stream, text in streams]
            for stream, line in ((stream, line) for stream, line in streamed if line is not None):
                stream.write(line + "\n")
                stream.flush()
            end = windows.ends.pop(translation.line, None)
            if part is not None:
                part.write(*(text(translation, source) for _, text in files))
            if part is not None and end is not None:
                part.record(end)
            for report in reports:
                report(translation)


class HashedWindows:
    """Source lines in the windows in which they are translated.

    Attributes:
        waiting: lines that were read and whose translation is not written yet, by number.
        ends: for each window that was read, the number of its last line and the hash of all lines up to it.
    """

    def __init__(self, lines: Iterator[Line], options: TranslationOptions, before: int = 0) -> None:
        """Take all lines, the settings that `Translator.translate` will read its windows with, and the lines before."""
        self.waiting: dict[int, Line] = {}
        self.ends: dict[int, str] = {}
        self._lines = lines
        self._options = options
        self._num_lines = self._before = before
        self._hash = hashlib.sha256()

    def skip(self, part: PartFile) -> None:
        """Skip the lines whose translations are in the file.

        Raises:
            DataError: it has translations of other lines.
        """
        count = part.resumed.lines
        for line in itertools.islice(self._lines, count):
            self._add(line)
        if self._num_lines - self._before < count:
            problem = f"has translations of {count} lines, but the input has {self._num_lines - self._before}"
        elif count and self._hash.hexdigest() != part.resumed.sources:
            problem = f"has translations of other lines than the first {count} of the input"
        else:
            return
        raise DataError(f"{part.part}: {problem}; start over without --resume")

    def lines(self) -> Iterator[Line]:
        """The lines that were not skipped."""
        for window, error in read_windows(self._lines, self._options):
            for line in window:
                self._add(line)
                self.waiting[self._num_lines] = line
            if error is None:
                self.ends[self._num_lines] = self._hash.hexdigest()
            yield from window
            if error is not None:
                raise error

    def _add(self, line: Line) -> None:
        plain: list[Any] = [line, None, ""]
        if isinstance(line, ConstrainedLine):
            plain = [line.text, (line.prefix, line.include, line.exclude, line.adapter), line.json_text]
        self._hash.update(json.dumps(plain).encode() + b"\n")
        self._num_lines += 1


def is_stream(path: Path) -> bool:
    """Return whether this is a device, a pipe or an open stream by name (/dev/stdout, even redirected to a file)."""
    name = os.path.abspath(path)
    return name.startswith(("/dev/std", "/dev/fd/", "/proc/")) or (path.exists() and not path.is_file())


@contextmanager
def open_stream(path: Path | None) -> Iterator[TextIO]:
    """Open stdout (None), or a device or pipe, which cannot be renamed and is written directly.

    Raises:
        ReadWriteError: it cannot be written.
    """
    if path is None:
        yield sys.stdout
        return
    with translate_write_errors(path), path.open("w", encoding="utf-8", newline="\n") as stream:
        yield stream


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
        """Write what was done when the last translation arrived: `1,200 of 30,000 lines, 85 lines/s, 5:39 left`."""
        if not self._has_reported:
            self._total = self._count_lines()
            self._has_reported = True
        rate = self._count / max(self._arrived - self._start, 1e-6)
        text = f"lines, {rate:,.0f} lines/s" if rate >= 10 else f"lines, {rate:.1f} lines/s"
        if self._total is None:
            text = f"{self._line:,} {text}"
        else:
            left = max(0.0, (self._total - self._line) / rate - (now - self._arrived))
            text = f"{self._line:,} of {self._total:,} {text}, {format_clock(left)} left"
        self._stream.write(f"{_CLEAR}{text}\r" if self._is_terminal else f"{text}\n")
        self._stream.flush()


MAX_LINES = 5  # line numbers that are listed for each flag


class FlagSummary:
    """Counts the flags of translations, and in them the terms of a glossary."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: defaultdict[str, list[int]] = defaultdict(list)
        self._num_flagged = self._num_lines = self._num_terms = self._num_honoured = 0

    def add(self, translation: Translation) -> None:
        """Count the flags and terms of a translation."""
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
        groups = {}
        for flag, count in self._counts.items():
            numbers = ", ".join(map(str, self._first[flag])) + (", ..." if count > MAX_LINES else "")
            groups[flag] = count, f"line{'s' if count > 1 else ''} {numbers}"
        return flag_sentence("line", self._num_flagged, self._num_lines, groups)


def flag_sentence(unit: str, flagged: int, total: int, groups: Mapping[str, tuple[int, str]]) -> str | None:
    """One line about flagged units; None if there are none.

    Args:
        unit: what was counted, in the singular.
        flagged, total: units with a flag, and all.
        groups: for each flag the number of units, and the places of the first ones.
    """
    if not flagged:
        return None
    parts = []
    for flag in sorted(groups, key=[*FLAGS].index):
        count, places = groups[flag]
        parts.append(f"{count:,} {FLAGS[flag]} ({places})")
    units = f"{unit}s are" if total > 1 else f"{unit} is"
    return f"{flagged:,} of {total:,} {units} flagged: {'; '.join(parts)}"
