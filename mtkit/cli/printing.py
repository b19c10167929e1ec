"""Writing results to stdout; everything that is not a result goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

WIDE = 5_000  # characters; a pipe has no width of its own, and not even the longest path (4,096) may be cut there


def print_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout.

    Raises:
        BrokenPipeError: nobody reads them any more.
    """
    for line in lines:
        sys.stdout.write(line + "\n")


def print_table(table: Table) -> None:
    """Write a table to stdout, as wide as the terminal, or as it needs to be in a pipe; names may hold any character.

    Raises:
        BrokenPipeError: nobody reads it any more.
    """
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDE
    Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False).print(table)
