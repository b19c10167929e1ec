"""Translate lines to stdout or to a file that can be resumed.

With `-o FILE` the lines go to `FILE.part`, which is renamed to `FILE` once it is complete. After an error or an
interruption `FILE.part` keeps the finished lines, and a later call can resume after them.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from mtkit.errors import DataError
from mtkit.io.files import create_temp_file, replace_file, translate_read_errors, translate_write_errors
from mtkit.translate.constraints import Line, with_constraints
from mtkit.translate.translator import Translator
from mtkit.translate.workers import translator_pool


def translate_to_file(
    load: Callable[[], Translator],
    lines: Iterable[str],
    output: Path | None,
    *,
    constraints: Path | None = None,
    resume: bool = False,
    as_json: bool = False,
    num_workers: int = 1,
    flush_every: int | None = None,
) -> None:
    """Translate lines and write one line for each, in order.

    Args:
        load: builds the translator, once in each worker process (see WorkerPool).
        lines: the source lines.
        output: the file to write; None is stdout, which is flushed after each line.
        constraints: JSON lines with the constraints of each source line (see with_constraints).
        resume: continue after the lines in `output`.part; ignored for stdout.
        as_json: write a JSON object a line instead of the translation alone.
        num_workers: worker processes; 1 translates in this process.
        flush_every: number of lines after which translations appear.

    Raises:
        DataError: FILE.part belongs to another input, or as `with_constraints` and `Translator.translate`.
        ReadWriteError: the output cannot be written.
    """
    source: Iterator[Line] = iter(lines) if constraints is None else with_constraints(lines, constraints)
    num_finished = 0
    if resume and output is not None:
        num_finished = count_finished_lines(output)
        source = skip_lines(source, num_finished, output)
    with (
        translator_pool(load, num_workers, flush_every=flush_every) as translate,
        open_output(output, resume=resume) as stream,
    ):
        for translation in translate(source, first=num_finished + 1):
            stream.write((translation.json() if as_json else translation.hyp) + "\n")
            if output is None:
                stream.flush()


@contextmanager
def open_output(path: Path | None, *, resume: bool = False) -> Iterator[TextIO]:
    """Open a text stream in UTF-8 that becomes `path` when the block ends without an error.

    Devices, pipes and names of open streams (/dev/stdout) are written directly, since they cannot be renamed.

    Args:
        path: the file; None is stdout.
        resume: append to FILE.part (see count_finished_lines) instead of replacing it.

    Raises:
        ReadWriteError: the file cannot be written.
    """
    if path is None or _is_stream(path):
        yield from _open_directly(path)
        return
    path, part = Path(os.path.realpath(path)), _part_path(path)
    with translate_write_errors(path):
        create_temp_file(part, path)
        stream = part.open("a" if resume else "w", encoding="utf-8", newline="\n")
    try:
        yield stream
    finally:
        with translate_write_errors(part):
            stream.close()
    with translate_write_errors(path):
        replace_file(part, path)


def count_finished_lines(path: Path) -> int:
    """Count the complete lines in FILE.part and cut off an incomplete last line; 0 if there is no such file.

    Raises:
        ReadWriteError: FILE.part cannot be read or truncated.
    """
    part = _part_path(path)
    if not part.is_file():
        return 0
    num_lines = num_bytes = 0
    with translate_read_errors(part), part.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                num_lines, num_bytes = num_lines + 1, num_bytes + len(line)
    with translate_write_errors(part):
        os.truncate(part, num_bytes)
    return num_lines


def skip_lines(lines: Iterator[Line], count: int, output: Path) -> Iterator[Line]:
    """Skip the first `count` lines, whose translations are already in `output`.part.

    Raises:
        DataError: there are fewer lines than that.
    """
    num_skipped = sum(1 for _ in itertools.islice(lines, count))
    if num_skipped < count:
        raise DataError(
            f"{output}.part: has {count} lines, but the input has {num_skipped}; it belongs to another input, start "
            "over without --resume"
        )
    return lines


def _part_path(path: Path) -> Path:
    """FILE.part, beside the target of a symbolic link."""
    path = Path(os.path.realpath(path))
    return path.with_name(path.name + ".part")


def _is_stream(path: Path) -> bool:
    """Whether this is a device, a pipe or the name of an open stream (/dev/stdout, even redirected to a file)."""
    name = os.path.abspath(path)
    return name.startswith(("/dev/std", "/dev/fd/", "/proc/")) or (path.exists() and not path.is_file())


def _open_directly(path: Path | None) -> Iterator[TextIO]:
    """Stdout, or a device or pipe with a name."""
    if path is None:
        yield sys.stdout
        return
    with translate_write_errors(path), path.open("w", encoding="utf-8", newline="\n") as stream:
        yield stream
