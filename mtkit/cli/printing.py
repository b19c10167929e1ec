"""Write results to stdout. Everything that is not a result goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

PIPE_WIDTH = 5_000  # characters; a pipe has no width, and the longest path (4,096) must not be cut


def print_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout.

    Raises:
        BrokenPipeError: the reader closed the pipe.
    """
    for line in lines:
        sys.stdout.write(line + "\n")


def print_notes(lines: Iterable[str]) -> None:
    """Write lines that are no result to stderr."""
    for line in lines:
        sys.stderr.write(line + "\n")


def print_translation_progress(line: int, done: int, characters: int) -> None:
    """Write to stderr how much of a very long line is translated."""
    sys.stderr.write(f"line {line:,}: {done:,} of {characters:,} characters translated\n")


def print_oom_note(batch_tokens: int) -> None:
    """Write to stderr that batches are smaller from now on."""
    print_notes([f"out of memory: batches are halved; --batch-tokens {batch_tokens} prevents the failed attempt"])


def print_table(table: Table) -> None:
    """Write a table to stdout, as wide as the terminal; in a pipe no cell is cut. Cells are not parsed as markup.

    Raises:
        BrokenPipeError: the reader closed the pipe.
    """
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPE_WIDTH
    Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False).print(table)
