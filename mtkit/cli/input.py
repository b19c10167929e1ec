"""Source lines of a command: from a file, a pipe, or a terminal with a prompt."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

from mtkit.text.lines import decode_lines, read_lines

PROMPT = "> "


def is_interactive(file: Path) -> bool:
    """Return whether the lines of `file` (- is stdin) are typed at a terminal."""
    return str(file) == "-" and sys.stdin.isatty()


def read_input_lines(file: Path) -> Iterator[str]:
    """Lines of a file or of stdin (-); at a terminal each line is asked for with a prompt.

    Raises:
        DataError, MissingInputError, ReadWriteError: as `read_lines`.
    """
    if is_interactive(file):
        return _prompt_lines()
    return decode_lines(sys.stdin.buffer, "stdin") if str(file) == "-" else read_lines(file)


def _prompt_lines() -> Iterator[str]:
    while True:
        sys.stderr.write(PROMPT)
        sys.stderr.flush()
        typed = sys.stdin.buffer.readline()
        if not typed:
            sys.stderr.write("\n")
            return
        yield from decode_lines(io.BytesIO(typed), "terminal")
