"""Learning curves of one or more runs from their `log.jsonl`: loss and BLEU over updates."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.errors import DataError
from mtkit.io.files import read_file
from mtkit.io.records import find_log, parse_record_line
from mtkit.plot.figure import TEXT_COLOUR, add_legend, distinct_names, figure_file, line_style, shorten
from mtkit.plot.page import Curve, curves, heading, paragraph

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = list[tuple[int, float]]
Ranges = list[tuple[int, float, float]]  # update, lowest and highest value
_TRAINING = "training, with dropout and label smoothing"
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


def curve_blocks(shown: Sequence[LearningCurves]) -> Iterator[str]:
    """Blocks of a page: loss and BLEU over updates, a line for each run, or for the mean of several seeds."""
    losses = [Curve(f"{each.label}, training", each.loss) for each in shown if each.loss]
    losses += [Curve(f"{each.label}, validation", each.nll, each.nll_range) for each in shown if each.nll]
    bleu = [Curve(each.label, each.bleu, each.bleu_range) for each in shown if each.bleu]
    if losses or bleu:
        yield heading("Training")
    if losses:
        title = "Cross-entropy; that of training has dropout and label smoothing"
        yield curves(title, losses, x="updates", y="nats per token")
    if bleu:
        yield curves("Translation of the validation set", bleu, x="updates", y="BLEU")
    if any(each.nll_range for each in shown):
        note = "Runs that differ in nothing but the seed are one line, their mean; its band is their range."
        yield paragraph(note, soft=True)


def plot_curves(runs: Sequence[Path], path: Path) -> None:
    """Draw the learning curves of run folders in one figure; `path` is the file to write.

    Raises:
        DataError, MissingInputError, ReadWriteError: as `read_curves`.
        MissingExtraError: matplotlib is not installed.
    """
    names = distinct_names(runs)
    draw_curves([read_curves(find_log(run), name) for run, name in zip(runs, names, strict=True)], path)


def draw_curves(runs: Sequence[LearningCurves], path: Path) -> None:
    """Draw learning curves in one figure; `path` is the file to write.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    has_loss, has_bleu = any(run.loss for run in runs), any(run.bleu for run in runs)
    with figure_file(path, width=10.0 if has_bleu else 6.0, height=4.2) as figure:
        panels = figure.subplots(1, 2 if has_bleu else 1, squeeze=False, sharex=True)[0]
        title = "Cross-entropy" if has_loss else "Cross-entropy of the validation set"
        _format_axes(panels[0], title, "nats per target token")
        if has_bleu:
            _format_axes(panels[1], "Translation of the validation set", "BLEU")
        lines, names = [], []
        for number, run in enumerate(runs):
            style, drawn = line_style(number), []
            if run.loss:
                # a line of one point is invisible
                marker: dict[str, Any] = {"marker": "o", "markersize": 4} if len(run.loss) == 1 else {}
                drawn = panels[0].plot(*zip(*run.loss, strict=True), **style, **marker, alpha=0.45, linewidth=1.2)
            if run.nll:
                drawn = panels[0].plot(*zip(*run.nll, strict=True), **style, **_marker_style(run.nll))
            _draw_range(panels[0], run.nll_range, number)
            lines.append(drawn[0] if drawn else panels[0].plot([], [], **style)[0])
            names.append(shorten(run.label))
            if run.bleu:
                update, best = max(run.bleu, key=lambda point: point[1])
                panels[1].plot(*zip(*run.bleu, strict=True), **style, **_marker_style(run.bleu))
                _draw_range(panels[1], run.bleu_range, number)
                colour = style["color"]
                panels[1].plot([update], [best], marker="*", markersize=14, linestyle="", color=colour, clip_on=False)
                names[-1] += f", ★ best BLEU: {best:.1f} at update {update:,}"
        if has_loss:  # which line is of the training: its loss lies above the same loss of validation
            colour = line_style(0)["color"] if len(runs) == 1 else TEXT_COLOUR
            panels[0].plot([], [], color=colour, alpha=0.45, linewidth=1.2, label=_TRAINING)
            panels[0].plot([], [], color=colour, **_marker_style([]), label="validation, without them")
            panels[0].legend(frameon=False, fontsize=9)
        if has_bleu:
            panels[1].set_ylim(bottom=0, top=panels[1].get_ylim()[1] * 1.05)
        if len(runs) > 1:
            add_legend(figure, lines, names)
        notes = names if len(runs) == 1 else []
        notes += ["mean of seeds; band: lowest to highest seed"] if any(run.nll_range for run in runs) else []
        figure.suptitle("\n".join(notes), fontsize=11)


def _draw_range(axes: Axes, values: Ranges, number: int) -> None:
    """Draw what lies between the lowest and the highest run of a mean."""
    if values:
        updates, lowest, highest = zip(*values, strict=True)
        axes.fill_between(updates, lowest, highest, color=line_style(number)["color"], alpha=0.15, linewidth=0)


def _marker_style(points: Points) -> dict[str, Any]:
    """Line style of validation curves: markers show the measured points, unless there are too many of them."""
    return {"linewidth": 1.8, "marker": "o" if len(points) <= 40 else "", "markersize": 4}


def _format_axes(axes: Axes, title: str, label: str) -> None:
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("updates")
    axes.set_ylabel(label)
    axes.grid(axis="y", alpha=0.25)
    axes.locator_params(axis="x", nbins=5, integer=True, min_n_ticks=1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
