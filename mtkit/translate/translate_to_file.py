"""Translate lines to stdout or to a file that can be resumed.

With `-o FILE` the lines go to `FILE.part`, which is renamed to `FILE` once it is complete. After an error, an
interruption or a kill, `FILE.part` keeps the finished lines, and a later call can resume after them. It continues at
the beginning of a window of lines, so that its batches are those of an uninterrupted translation, and so is its output.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from mtkit.errors import DataError
from mtkit.io.files import translate_write_errors
from mtkit.io.part_file import PartFile, open_part_file
from mtkit.translate.constraints import ConstrainedLine, Line, text_of, with_constraints
from mtkit.translate.translation import Translation
from mtkit.translate.translator import TranslationOptions, Translator, read_windows
from mtkit.translate.workers import translator_pool, window_options


@dataclass(frozen=True)
class OutputFile:
    """A file for translations.

    Attributes:
        path: FILE.
        resume: continue FILE.part; ignored for a device or a pipe.
        header: the settings that the translations depend on; see `open_part_file`.
    """

    path: Path
    resume: bool = False
    header: Mapping[str, Any] = field(default_factory=dict)


def translate_to_file(
    load: Callable[[], Translator],
    lines: Iterable[str],
    output: OutputFile | None,
    *,
    constraints: Path | None = None,
    as_json: bool = False,
    num_workers: int = 1,
    flush_every: int | None = None,
) -> None:
    """Translate lines and write one line for each, in order, as soon as it is translated.

    Args:
        load: builds the translator, once in each worker process (see WorkerPool).
        lines: the source lines.
        output: the file to write; None is stdout.
        constraints: JSON lines with the constraints of each source line (see with_constraints).
        as_json: write a JSON object a line instead of the translation alone.
        num_workers: worker processes; 1 translates in this process.
        flush_every: number of lines after which translations appear.

    Raises:
        BusyError: another process is writing the same file.
        DataError: FILE.part is of another text, model or settings, or as `with_constraints` and `Translator.translate`.
        UsageError: FILE.part is a link, a folder, a device or a pipe.
        ReadWriteError: the output cannot be written.
    """
    source: Iterator[Line] = iter(lines) if constraints is None else with_constraints(lines, constraints)
    text: Callable[[Translation], str] = Translation.json if as_json else _hyp
    pool = translator_pool(load, num_workers, flush_every=flush_every)
    if output is None or is_stream(output.path):
        with pool as translate, open_stream(None if output is None else output.path) as stream:
            for translation in translate(source):
                stream.write(text(translation) + "\n")
                stream.flush()
        return
    with open_part_file(output.path, output.header, resume=output.resume) as part:
        windows = HashedWindows(source, window_options(num_workers, flush_every))
        windows.skip(part)
        with pool as translate:
            _write_part(translate(windows.lines(), first=part.resumed.lines + 1), part, windows, text)


def _write_part(
    translations: Iterable[Translation],
    part: PartFile,
    windows: HashedWindows,
    text: Callable[[Translation], str],
) -> None:
    for translation in translations:
        part.write(text(translation))
        if translation.line in windows.ends:
            part.record(windows.ends.pop(translation.line))


def _hyp(translation: Translation) -> str:
    return translation.hyp


class HashedWindows:
    """Source lines in the windows in which they are translated.

    Attributes:
        ends: for each window that was read, the number of its last line and the hash of all lines up to it.
    """

    def __init__(self, lines: Iterator[Line], options: TranslationOptions) -> None:
        """Take all lines, and the settings that `Translator.translate` will read its windows with."""
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
            if error is None:
                self.ends[self._num_lines] = self._hash.hexdigest()
            yield from window
            if error is not None:
                raise error

    def _add(self, line: Line) -> None:
        constraints = (line.prefix, line.include, line.exclude) if isinstance(line, ConstrainedLine) else None
        self._hash.update(json.dumps([text_of(line), constraints]).encode() + b"\n")
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
