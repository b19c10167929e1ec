"""The learning curves of a study: one line for each variant, the mean over its seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from mtkit.errors import DataError
from mtkit.plot.curves import Curves, Points, draw_curves, read_curves
from mtkit.study.results import Results, Row


def draw(results: Results, path: Path) -> bool:
    """Draw validation loss and BLEU of all variants in one picture; gives whether there was anything to draw.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    variants = [mean_curves(row.variant, _curves(row)) for row in results.rows]
    there = [curves for curves in variants if curves.nll]
    if there:
        draw_curves(there, path)
    return bool(there)


def _curves(row: Row) -> list[Curves]:
    """Of each run that was validated."""
    found = []
    for one in row.outcomes:
        log = one.run.folder.log
        try:
            found += [read_curves(log, row.variant)] if log.is_file() else []
        except DataError:  # begun a moment ago
            continue
    return [curves for curves in found if curves.nll]


def mean_curves(label: str, runs: Sequence[Curves]) -> Curves:
    """The mean of the validations, at the updates that all of the runs have."""
    return Curves(label, nll=_mean([run.nll for run in runs]), bleu=_mean([run.bleu for run in runs]))


def _mean(lines: Sequence[Points]) -> Points:
    values = [dict(line) for line in lines]
    updates = sorted(set.intersection(*map(set, values))) if values else []
    return [(update, statistics.fmean(each[update] for each in values)) for update in updates]
