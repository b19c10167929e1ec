"""Where a command's lines go: stdout, or a file that appears under its name only when it is whole."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from mtkit.files import flush_to_disk, writing


@contextmanager
def output(path: Path | None) -> Iterator[TextIO]:
    """A stream for text in UTF-8.

    With a path the lines go to FILE.part beside it, which is renamed at the end of the block; after an error it stays,
    with what was done.

    Raises:
        ReadWriteError: the file cannot be written.
    """
    if path is None or not (path.is_file() or not path.exists()):
        yield from _directly(path)
        return
    part = path.with_name(path.name + ".part")
    with writing(path):
        stream = part.open("w", encoding="utf-8", newline="\n")
    try:
        yield stream
    finally:
        with writing(part):
            stream.close()
    with writing(path):
        flush_to_disk(part)
        part.replace(path)
        flush_to_disk(path.parent)


def _directly(path: Path | None) -> Iterator[TextIO]:
    """stdout, or a device or pipe that has a name."""
    if path is None:
        yield sys.stdout
        return
    with writing(path), path.open("w", encoding="utf-8", newline="\n") as stream:
        yield stream
