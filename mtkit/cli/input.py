"""Source lines of a command: from a file, a pipe, or a terminal with a prompt."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mtkit.errors import UsageError
from mtkit.text.lines import decode_lines, read_lines

PROMPT = "> "


def is_interactive(file: Path) -> bool:
    """Return whether the lines of `file` (- is stdin) are typed at a terminal."""
    return str(file) == "-" and sys.stdin.isatty()


def read_input_lines(file: Path) -> Iterator[str]:
    """Lines of a file or of stdin (-); at a terminal each line is asked for with a prompt.

    Raises:
        UsageError: stdout is the same file.
        DataError, MissingInputError, ReadWriteError: as `read_lines`.
    """
    forbid_stdout_over_input(file)
    if is_interactive(file):
        return _prompt_lines()
    return decode_lines(sys.stdin.buffer, "stdin") if str(file) == "-" else read_lines(file)


def forbid_stdout_over_input(file: Path) -> None:
    """Refuse an input file (- is stdin) that stdout is redirected to: the command would read what it writes.

    Raises:
        UsageError: both are the same file.
    """
    try:
        stdin, stdout = os.fstat(0), os.fstat(1)
        source = stdin if str(file) == "-" else file.stat()
    except OSError:  # reported where the file is read
        return
    if stat.S_ISREG(source.st_mode) and os.path.samestat(source, stdout):
        raise UsageError(f"{file}: stdout is redirected to this input file; name another output")


def _prompt_lines() -> Iterator[str]:
    """Lines typed at the terminal; where stdout is one too, they can be edited, and Up brings earlier ones back."""
    type_line = _type_with_history if sys.stdout.isatty() else _type_line
    while (typed := type_line()) is not None:
        yield from decode_lines(io.BytesIO(typed), "terminal")
    sys.stderr.write("\n")


def _type_line() -> bytes | None:
    """The next line, None at the end."""
    sys.stderr.write(PROMPT)
    sys.stderr.flush()
    return sys.stdin.buffer.readline() or None


def _type_with_history() -> bytes | None:
    """`_type_line` by the editor of the system, if Python was built with it."""
    with suppress(ImportError):
        import readline  # noqa: F401  `input` uses it once it is imported
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # `decode_lines` names what is no UTF-8
    try:
        return (input(PROMPT) + "\n").encode(errors="surrogateescape")
    except EOFError:
        return None
