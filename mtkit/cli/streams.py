"""Standard streams: UTF-8 in every locale, closed descriptors, and a reader that has closed our stdout."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO, cast

from mtkit.display import printable


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
    """Make text UTF-8 with `\\n` in every locale, and bytes that are not UTF-8 printable in names of files."""
    _open_closed_streams()
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


def flush_stdout() -> None:
    """Flush the output that precedes an error; if that fails too, only the first error is reported."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_stdout()


def discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that Python's own flush at exit cannot fail."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _open_closed_streams() -> None:
    """Replace streams that the caller closed: reading stdin and writing stdout then fail, stderr is discarded.

    A free descriptor 0, 1 or 2 would otherwise be given to the next file that is opened, and messages would be
    written into that file.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(_open_devnull_as(0, os.O_WRONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(_open_devnull_as(1, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(_open_devnull_as(2, os.O_WRONLY), "w")


def _open_devnull_as(descriptor: int, mode: int) -> int:
    devnull = os.open(os.devnull, mode)
    if devnull != descriptor:
        os.dup2(devnull, descriptor)
        os.close(devnull)
    return descriptor
