"""Standard streams: data to stdout exactly, all that people read as `printable` text, messages to stderr.

Streams are UTF-8 in every locale; closed descriptors, and a reader that has closed our stdout, are handled here.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from mtkit.display import fold, in_current_folder, printable

if TYPE_CHECKING:
    from mtkit.display import Table, TableFormat


STDOUT = Path("-")


def print_data(lines: Iterable[str]) -> None:
    """Write lines to stdout exactly as they are: text, scores, and paths for other programs.

    Raises:
        BrokenPipeError: the reader closed the pipe.
    """
    for line in lines:
        sys.stdout.write(line + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Write lines for people to stdout.

    Raises:
        BrokenPipeError: the reader closed the pipe.
    """
    print_data(map(printable, lines))


def print_notes(lines: Iterable[str]) -> None:
    """Write lines that are no result to stderr, within a terminal's width; it escapes them (see PrintableStream)."""
    width = os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else 0
    for line in lines:
        sys.stderr.write("\n".join(fold(line, width) if width else [line]) + "\n")


def print_translation_progress(line: int, done: int, characters: int) -> None:
    """Write to stderr how much of a very long line is translated."""
    print_notes([f"line {line:,}: {done:,} of {characters:,} characters translated"])


def print_oom_note(batch_tokens: int) -> None:
    """Write to stderr that batches are smaller from now on."""
    print_notes([f"out of memory: batches are halved; --batch-tokens {batch_tokens} prevents the failed attempt"])


def print_results(
    tables: Sequence[Table],
    form: TableFormat | None = None,
    *,
    notes: Iterable[str] = (),
    content: Any = None,
    json_file: Path | None = None,
    folds: bool = False,
) -> None:
    """Write tables to stdout: text as wide as the terminal (in a pipe, as wide as its cells), or another form.

    Args:
        form: value of --format; None: text.
        notes: lines below the tables; comments in LaTeX, on stderr beside TSV, absent from JSON.
        content: written as JSON; None: the rows of the tables.
        folds: fold text in a pipe too, to COLUMNS or 80 columns.
        json_file: value of --json: also write JSON to this file, or to stdout instead of the tables.

    Raises:
        BrokenPipeError: the reader closed the pipe.
    """
    rows = [row for table in tables for row in table.records()] if content is None else content
    if form == "json" or json_file == STDOUT:
        print_data([json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False)])
    else:
        width = shutil.get_terminal_size().columns if folds or sys.stdout.isatty() else None
        for number, table in enumerate(tables):
            print_data([*([""] if number else []), *table.format(form, width)])
        if form == "tsv":
            print_notes(notes)
        else:
            mark = {"markdown": "- ", "latex": "% "}.get(form or "", "")
            lines = [printable(in_current_folder(f"{mark}{note}")) for note in notes]
            print_data(lines if width is None or mark else (part for line in lines for part in fold(line, width)))
    if json_file is not None and json_file != STDOUT:
        from mtkit.io.files import write_json

        write_json(json_file, rows)


class PrintableStream:
    """A stream for people: what a terminal would obey is escaped, and long lines are shortened.

    It stands for stderr, so that messages, logs, warnings and tracebacks of all libraries go through it.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text as `printable` gives it; returns the characters of the text."""
        self.stream.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def prepare_streams() -> None:
    """Make text UTF-8 with `\\n` in every locale, and bytes that are not UTF-8 printable in names of files.

    Streams that the caller closed are replaced: reading stdin and writing stdout then fail, stderr is discarded. A free
    descriptor 0, 1 or 2 would otherwise be given to the next file that is opened, and messages would be written into
    that file.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(_open_devnull_as(0, os.O_WRONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(_open_devnull_as(1, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(_open_devnull_as(2, os.O_WRONLY), "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")
    if not isinstance(sys.stderr, PrintableStream):
        sys.stderr = cast(TextIO, PrintableStream(sys.stderr))


def terminal() -> TextIO:
    """stderr for a display that moves the cursor and escapes the text of its lines itself."""
    return sys.stderr.stream if isinstance(sys.stderr, PrintableStream) else sys.stderr


def is_terminal() -> bool:
    """Return whether stderr is a terminal with cursor control."""
    return sys.stderr.isatty() and "TERM" in os.environ and os.environ["TERM"] not in ("", "dumb")


def discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that Python's own flush at exit cannot fail."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _open_devnull_as(descriptor: int, mode: int) -> int:
    devnull = os.open(os.devnull, mode)
    if devnull != descriptor:
        os.dup2(devnull, descriptor)
        os.close(devnull)
    return descriptor
