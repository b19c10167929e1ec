"""BLEU by the length of the source, drawn: a line for each variant, with its spread over the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mtkit.plot.by_length import ByLength, Group, draw_by_length
from mtkit.study.results import Results, Row


def draw(results: Results, path: Path) -> bool:
    """Draw all variants that have finished runs; gives whether there was anything to draw.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    groups = [Group(name, lines) for name, lines in results.lines_by_length.items() if lines]
    systems = [_system(row, groups) for row in results.rows if row.figures]
    if groups and systems:
        draw_by_length(groups, systems, path)
    return bool(groups and systems)


def _system(row: Row, groups: Sequence[Group]) -> ByLength:
    spreads = [row.figures[f"bleu {group.name}"] for group in groups]
    return ByLength(row.variant, [spread.mean for spread in spreads], [spread.deviation or 0.0 for spread in spreads])
