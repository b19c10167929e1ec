"""Translate lines to stdout or to files that can be resumed.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from mtkit.errors import DataError
from mtkit.io.files import translate_write_errors
from mtkit.io.json_text import finite
from mtkit.io.part_file import PartFile, open_part_file
from mtkit.translate.lines import ConstrainedLine, Line, as_plain, read_windows, text_of
from mtkit.translate.translation import Alternative, Translation, TranslationOptions
from mtkit.translate.workers import LineTranslator, translator_pool, window_options

Format = Callable[[Translation, Line], str | None]
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
    return "\n".join(
        SEPARATOR.join((number, _spaced_bars(each.hyp), f"LogProb= {each.log_prob:.6f}", f"{each.score:.6f}"))
        for each in _alternatives(translation)
    )


def _spaced_bars(text: str) -> str:
    """The text with spaces in each run of three or more vertical bars."""
    return re.sub(r"\|{3,}", lambda bars: " ".join(bars[0]), text)


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
    """A JSON object about a flagged line: its number, flags, source and translation; None for a line without flags."""
    if not translation.flags:
        return None
    record = {"line": translation.line, "flags": translation.flags, "src": text_of(source), "hyp": translation.hyp}
    return _dumps(record)


def _dumps(fields: dict[str, object]) -> str:
    """One line of JSON; numbers that are not finite, which JSON cannot represent, are null."""
    return json.dumps(finite(fields), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class Destination:
    """A place for a line about each translation.

    Attributes:
        path: a file, device or pipe; None is stdout.
        text: form of the line.
    """

    path: Path | None = None
    text: Format = as_text

    @property
    def is_stream(self) -> bool:
        """True if it is stdout, a device or a pipe, which cannot be renamed and is written directly."""
        return self.path is None or is_stream(self.path)


@dataclass(frozen=True, kw_only=True)
class Output:
    """Destinations of translations.

    Attributes:
        destinations: those that are files become complete together.
        resume: continue FILE.part of the first file; ignored if there is none.
        header: the settings that the translations depend on; see `open_part_file`.
        reports: called with each translation once it is written.
    """

    destinations: Sequence[Destination] = (Destination(),)
    resume: bool = False
    header: Mapping[str, Any] = field(default_factory=dict)
    reports: Sequence[Callable[[Translation], None]] = ()


def translate_to_file(
    load: Callable[[], LineTranslator],
    lines: Iterable[Line],
    output: Output,
    *,
    num_workers: int = 1,
    flush_every: int | None = None,
) -> None:
    """Translate lines and write one line for each, in order, as soon as it is translated.

    Args:
        load: builds the translator, once in each worker process (see WorkerPool).
        lines: the source lines.
        output: where and how translations are written.
        num_workers: worker processes; 1 translates in this process.
        flush_every: number of lines after which translations appear.

    Raises:
        BusyError: another process is writing the same file.
        DataError: FILE.part is of another text, model or settings, or reading `lines` or `Translator.translate` failed.
        UsageError: FILE.part is a link, a folder, a device or a pipe.
        ReadWriteError: the output cannot be written.
    """
    windows = HashedWindows(iter(lines), window_options(num_workers, flush_every))
    files = [(each.path, each.text) for each in output.destinations if each.path is not None and not each.is_stream]
    with ExitStack() as stack:
        part: PartFile | None = None
        first = 1
        if files:
            path, *beside = [path for path, _ in files]
            part = stack.enter_context(open_part_file(path, output.header, beside=beside, resume=output.resume))
        streams = [
            (stack.enter_context(open_stream(each.path)), each.text) for each in output.destinations if each.is_stream
        ]
        if part is not None:
            windows.skip(part)
            first = part.resumed.lines + 1
        translate = stack.enter_context(translator_pool(load, num_workers, flush_every=flush_every))
        for translation in translate(windows.lines(), first=first):
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
            for report in output.reports:
                report(translation)


class HashedWindows:
    """Source lines in the windows in which they are translated.

    Attributes:
        waiting: lines that were read and whose translation is not written yet, by number.
        ends: for each window that was read, the number of its last line and the hash of all lines up to it.
    """

    def __init__(self, lines: Iterator[Line], options: TranslationOptions) -> None:
        """Take all lines, and the settings that `Translator.translate` will read its windows with."""
        self.waiting: dict[int, Line] = {}
        self.ends: dict[int, str] = {}
        self._lines = lines
        self._options = options
        self._num_lines = 0
        self._hash = hashlib.sha256()

    def skip(self, part: PartFile) -> None:
        """Skip the lines whose translations are in the file.

        Raises:
            DataError: it has translations of other lines.
        """
        count = part.resumed.lines
        for line in itertools.islice(self._lines, count):
            self._add(line)
        if self._num_lines < count:
            problem = f"has translations of {count} lines, but the input has {self._num_lines}"
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
        self._hash.update(json.dumps(as_plain(line)).encode() + b"\n")
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
