"""Write results to stdout: data exactly, all that people read as `printable` text. Other messages go to stderr."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.display import printable

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
    """Write lines that are no result to stderr, which escapes them (see streams.py)."""
    for line in lines:
        sys.stderr.write(line + "\n")


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
) -> None:
    """Write tables to stdout: text as wide as the terminal (in a pipe, as wide as its cells), or another form.

    Args:
        form: value of --format; None: text.
        notes: lines below the tables; comments in LaTeX, on stderr beside TSV, absent from JSON.
        content: written as JSON; None: the rows of the tables.
        json_file: value of --json: also write JSON to this file, or to stdout instead of the tables.

    Raises:
        BrokenPipeError: the reader closed the pipe.
    """
    rows = [row for table in tables for row in table.records()] if content is None else content
    if form == "json" or json_file == STDOUT:
        print_data([json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False)])
    else:
        _print_tables(tables, form, notes)
    if json_file is not None and json_file != STDOUT:
        from mtkit.io.files import write_json

        write_json(json_file, rows)


def _print_tables(tables: Sequence[Table], form: TableFormat | None, notes: Iterable[str]) -> None:
    from mtkit.display import fold

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for number, table in enumerate(tables):
        print_data([*([""] if number else []), *table.format(form, width)])
    if form == "tsv":
        print_notes(notes)
    else:
        mark = {"markdown": "- ", "latex": "% "}.get(form or "", "")
        lines = [printable(f"{mark}{note}") for note in notes]
        print_data(lines if width is None or mark else (part for line in lines for part in fold(line, width)))
