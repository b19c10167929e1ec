"""Where a command's lines come from: a file, a pipe, or a person at a terminal."""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from mtkit.errors import DataError
from mtkit.text.lines import decode_lines, read_lines
from mtkit.translate.constraints import Line

PROMPT = "> "


def is_person(file: Path) -> bool:
    """Whether the lines of `file` (- is stdin) will be typed in."""
    return str(file) == "-" and sys.stdin.isatty()


def lines_of(file: Path) -> Iterator[str]:
    """The lines of a file, of stdin, or as they are typed in at a prompt.

    Raises:
        DataError, MissingInputError, ReadWriteError: as `read_lines`.
    """
    if is_person(file):
        return _asked()
    return decode_lines(sys.stdin.buffer, "stdin") if str(file) == "-" else read_lines(file)


def without_first(lines: Iterator[Line], count: int, done: Path) -> Iterator[Line]:
    """The lines after the first `count`, which were translated to `done` before.

    Raises:
        DataError: there are fewer.
    """
    skipped = sum(1 for _ in itertools.islice(lines, count))
    if skipped < count:
        raise DataError(
            f"{done}.part: has {count} lines and the input {skipped}; it is of another input, do without --resume"
        )
    return lines


def _asked() -> Iterator[str]:
    while True:
        sys.stderr.write(PROMPT)
        sys.stderr.flush()
        typed = sys.stdin.buffer.readline()
        if not typed:
            sys.stderr.write("\n")
            return
        yield from decode_lines(io.BytesIO(typed), "terminal")
