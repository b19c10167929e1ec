"""Files of a study beside its runs: tables, mean learning curves, BLEU by source length."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from mtkit.errors import DataError
from mtkit.io.files import translate_write_errors, write_json, write_text
from mtkit.plot.by_length import BleuByLength, LengthGroup, draw_bleu_by_length
from mtkit.plot.curves import LearningCurves, Points, Ranges, draw_curves, read_curves
from mtkit.plot.figure import is_installed
from mtkit.study.results import StudyResults, VariantRow, as_csv, as_json, markdown

MARKDOWN, CSV, JSON = "results.md", "results.csv", "results.json"


def write_results(results: StudyResults, folder: Path) -> list[Path]:
    """Write the table as Markdown, CSV and JSON, and the plots if matplotlib is installed.

    Returns:
        Paths of the files written.

    Raises:
        ReadWriteError: the folder cannot be written.
    """
    with translate_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / MARKDOWN, markdown(results))
    write_text(folder / CSV, as_csv(results))
    write_json(folder / JSON, as_json(results))
    plots = {"curves.png": plot_curves, "bleu_by_length.png": plot_bleu_by_length}
    drawn = [name for name, plot in plots.items() if is_installed() and plot(results, folder / name)]
    return [folder / name for name in (MARKDOWN, CSV, JSON, *drawn)]


def plot_curves(results: StudyResults, path: Path) -> bool:
    """Draw validation loss and BLEU of all variants, each the mean over its seeds; False if there is nothing to draw.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    variants = [mean_curves(row.variant, _curves_of_runs(row)) for row in results.rows]
    validated = [curves for curves in variants if curves.nll]
    if validated:
        draw_curves(validated, path)
    return bool(validated)


def _curves_of_runs(row: VariantRow) -> list[LearningCurves]:
    """Curves of the runs that have been validated."""
    curves = []
    for result in row.results:
        log = result.run.folder.log
        try:
            curves += [read_curves(log, row.variant)] if log.is_file() else []
        except DataError:  # a run that has only just started
            continue
    return [each for each in curves if each.nll]


def mean_curves(label: str, runs: Sequence[LearningCurves]) -> LearningCurves:
    """Mean and range of the validation curves, at the updates that all runs have."""
    (nll, nll_range), (bleu, bleu_range) = (_mean([getattr(run, name) for run in runs]) for name in ("nll", "bleu"))
    return LearningCurves(label, nll=nll, bleu=bleu, nll_range=nll_range, bleu_range=bleu_range)


def _mean(lines: Sequence[Points]) -> tuple[Points, Ranges]:
    values = [dict(line) for line in lines]
    updates = sorted(set.intersection(*map(set, values))) if values else []
    at = {update: [each[update] for each in values] for update in updates}
    ranges = [(update, min(each), max(each)) for update, each in at.items() if len(each) > 1]
    return [(update, statistics.fmean(each)) for update, each in at.items()], ranges


def plot_bleu_by_length(results: StudyResults, path: Path) -> bool:
    """Draw BLEU by source length of all variants with finished runs; False if there is nothing to draw.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    groups = [LengthGroup(name, lines) for name, lines in results.lines_by_length.items() if lines]
    systems = [_bleu_of_groups(row, groups) for row in results.rows if row.metrics]
    if groups and systems:
        draw_bleu_by_length(groups, systems, path, whiskers="standard deviation of seeds")
    return bool(groups and systems)


def _bleu_of_groups(row: VariantRow, groups: Sequence[LengthGroup]) -> BleuByLength:
    bleu = [row.metrics[f"bleu {group.name}"] for group in groups]
    return BleuByLength(row.variant, [each.mean for each in bleu], [each.std or 0.0 for each in bleu])
