"""Learning curves of one or more runs from their `log.jsonl`: loss and BLEU over updates."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mtkit.errors import DataError
from mtkit.io.files import read_file
from mtkit.io.records import find_log, parse_record_line
from mtkit.plot.figure import distinct_names, draw
from mtkit.plot.page import Curve, Picture, curves, heading, paragraph

Points = list[tuple[int, float]]
Ranges = list[tuple[int, float, float]]  # update, lowest and highest value
ADDED_TERMS = ("alignment", "kl", "unlikelihood")  # what objectives add to the cross-entropy, and log


@dataclass(frozen=True)
class LearningCurves:
    """Curves of one run; points are (update, value).

    Attributes:
        loss: training loss in nats per token, with dropout and label smoothing, without ADDED_TERMS.
        nll: validation negative log-likelihood in nats per token, without label smoothing.
        nll_range, bleu_range: of the runs that `nll` and `bleu` are the mean of; empty for one run.
    """

    label: str
    loss: Points = field(default_factory=list)
    nll: Points = field(default_factory=list)
    bleu: Points = field(default_factory=list)
    nll_range: Ranges = field(default_factory=list)
    bleu_range: Ranges = field(default_factory=list)


def read_curves(log: Path, label: str) -> LearningCurves:
    """Read a `log.jsonl`; damaged lines, and those cut off by a kill, are skipped.

    Raises:
        MissingInputError, ReadWriteError: the log cannot be read.
        DataError: the log contains no points.
    """
    curves = LearningCurves(label)
    content = read_file(log)
    for line in content.split(b"\n"):
        record = parse_record_line(line) or {}
        sources = {"train": [("loss", curves.loss)], "validation": [("nll", curves.nll), ("bleu", curves.bleu)]}
        for name, points in sources.get(record.get("event", ""), []):
            value, update = record.get(name), record.get("update")
            added = [record.get(term) for term in ADDED_TERMS] if name == "loss" else []
            if isinstance(value, int | float) and isinstance(update, int):
                points.append((update, value - sum(term for term in added if isinstance(term, int | float))))
    if not (curves.loss or curves.nll or curves.bleu):
        raise DataError(f"{log}: nothing to draw yet: no update was logged")
    return curves


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


def training_pictures(runs: Sequence[LearningCurves]) -> list[Picture]:
    """Loss and BLEU over updates, a line for each run, or for the mean of several seeds."""
    losses = [Curve(f"{each.label}, training", each.loss) for each in runs if each.loss]
    losses += [Curve(f"{each.label}, validation", each.nll, each.nll_range) for each in runs if each.nll]
    bleu = []
    for run in (each for each in runs if each.bleu):
        update, best = max(run.bleu, key=lambda point: point[1])
        bleu.append(Curve(f"{run.label}, best BLEU: {best:.1f} at update {update:,}", run.bleu, run.bleu_range))
    title = "Cross-entropy; that of training has dropout and label smoothing"
    pictures = [
        Picture(title, losses, "updates", "nats per token"),
        Picture("Translation of the validation set", bleu, "updates", "BLEU"),
    ]
    return [each for each in pictures if each.curves]


def curve_blocks(runs: Sequence[LearningCurves]) -> Iterator[str]:
    """Blocks of a page with `training_pictures`."""
    pictures = training_pictures(runs)
    if pictures:
        yield heading("Training")
    yield from map(curves, pictures)
    if any(each.nll_range for each in runs):
        note = "Runs that differ in nothing but the seed are one line, their mean; its band is their range."
        yield paragraph(note, soft=True)


def plot_curves(runs: Sequence[Path], path: Path) -> None:
    """Draw the learning curves of run folders in one figure; `path` is the file to write.

    Raises:
        DataError, MissingInputError, ReadWriteError: as `read_curves`.
        MissingExtraError: matplotlib is not installed.
    """
    names = distinct_names(runs)
    draw(training_pictures([read_curves(find_log(run), name) for run, name in zip(runs, names, strict=True)]), path)
