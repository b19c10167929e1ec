"""Where a command's lines go: stdout, or a file that appears under its name only when it is whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from mtkit.errors import UsageError
from mtkit.io.files import begin_file, reading, replace_file, writing


@contextmanager
def output(path: Path | None, *, resume: bool = False) -> Iterator[TextIO]:
    """A stream for text in UTF-8.

    With a path the lines go to FILE.part beside it, which is renamed at the end of the block; after an error it stays,
    with what was done.

    Args:
        path: the file; None is stdout.
        resume: go on behind what FILE.part holds (see lines_done).

    Raises:
        ReadWriteError: the file cannot be written.
    """
    if path is None or _is_stream(path):
        yield from _directly(path)
        return
    path, part = Path(os.path.realpath(path)), _part(path)
    with writing(path):
        begin_file(part, path)
        stream = part.open("a" if resume else "w", encoding="utf-8", newline="\n")
    try:
        yield stream
    finally:
        with writing(part):
            stream.close()
    with writing(path):
        replace_file(part, path)


def lines_done(path: Path) -> int:
    """Whole lines in FILE.part, 0 if it is not there; a line that was cut off at its end is removed.

    Raises:
        ReadWriteError: it cannot be read or written.
    """
    part = _part(path)
    if not part.is_file():
        return 0
    lines = whole = 0
    with reading(part), part.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                lines, whole = lines + 1, whole + len(line)
    with writing(part):
        os.truncate(part, whole)
    return lines


def check_json(path: Path | None, read: Iterable[Path | None], command: str) -> None:
    """Refuse to write a command's figures over what they are of.

    Raises:
        UsageError: `path` is one of the files that are read.
    """
    if path is not None and path.resolve() in {each.resolve() for each in read if each is not None}:
        raise UsageError(f"{command}: --json {path} would replace a text or recipe that is read; give another FILE")


def _part(path: Path) -> Path:
    """FILE.part, beside the file itself if the path is a link to it."""
    path = Path(os.path.realpath(path))
    return path.with_name(path.name + ".part")


def _is_stream(path: Path) -> bool:
    """Whether this is a device or a pipe, or a name of an open stream such as /dev/stdout, which leads to a file."""
    names = os.path.abspath(path)
    return names.startswith(("/dev/std", "/dev/fd/", "/proc/")) or (path.exists() and not path.is_file())


def _directly(path: Path | None) -> Iterator[TextIO]:
    """stdout, or a device or pipe that has a name."""
    if path is None:
        yield sys.stdout
        return
    with writing(path), path.open("w", encoding="utf-8", newline="\n") as stream:
        yield stream
