"""Learning curves of one or more runs from their `log.jsonl`: loss on the left, BLEU on the right, over updates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.errors import DataError
from mtkit.io.files import reading
from mtkit.plot.picture import letters, line_style, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = list[tuple[int, float]]


@dataclass(frozen=True)
class Curves:
    """What one run's log tells, each as (update, value).

    Attributes:
        label: the name of the run.
        loss: of training, nats per token, with whatever smoothing the run has.
        nll: of validation, nats per token, without smoothing.
        bleu: of validation.
    """

    label: str
    loss: Points = field(default_factory=list)
    nll: Points = field(default_factory=list)
    bleu: Points = field(default_factory=list)


def read_curves(log: Path, label: str) -> Curves:
    """Read a `log.jsonl`; a line that is torn is passed over.

    Raises:
        MissingInputError, ReadWriteError: as `files.reading`.
        DataError: nothing was logged that could be drawn.
    """
    curves = Curves(label)
    with reading(log):
        content = log.read_bytes()
    for line in content.split(b"\n"):
        record = _parse(line)
        sources = {"train": [("loss", curves.loss)], "validation": [("nll", curves.nll), ("bleu", curves.bleu)]}
        for name, points in sources.get(record.get("event", ""), []):
            value, update = record.get(name), record.get("update")
            if isinstance(value, int | float) and isinstance(update, int):
                points.append((update, value))
    if not (curves.loss or curves.nll or curves.bleu):
        raise DataError(f"{log}: nothing to draw yet: no update was logged")
    return curves


def _parse(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def plot_curves(runs: Sequence[Path], path: Path) -> None:
    """Draw the logs of run folders in one picture; `path` is the PNG to write.

    Raises:
        DataError, MissingInputError, ReadWriteError: as `read_curves`.
        MissingExtraError: matplotlib is not installed.
    """
    draw_curves([read_curves(run / "log.jsonl", run.resolve().name) for run in runs], path)


def draw_curves(runs: Sequence[Curves], path: Path) -> None:
    """Draw curves in one picture; `path` is the PNG to write.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    has_bleu = any(run.bleu for run in runs)
    with picture(path, width=10.0 if has_bleu else 6.0, height=4.2) as figure:
        panels = figure.subplots(1, 2 if has_bleu else 1, squeeze=False, sharex=True)[0]
        _draw_losses(panels[0], runs)
        if has_bleu:
            _draw_bleu(panels[1], runs)
        if len(runs) == 1:
            figure.suptitle(runs[0].label, fontsize=12)


def _draw_losses(axes: Axes, runs: Sequence[Curves]) -> None:
    for number, run in enumerate(runs):
        style = line_style(number)
        name = f"{run.label}, " if len(runs) > 1 else ""
        if run.loss:
            axes.plot(*zip(*run.loss, strict=True), **style, alpha=0.45, linewidth=1.2, label=f"{name}training loss")
        if run.nll:
            axes.plot(*zip(*run.nll, strict=True), **style, **_marked(run.nll), label=f"{name}validation nll")
    _finish(axes, "nats per token")
    axes.legend(frameon=False, fontsize=letters(len(runs)))


def _draw_bleu(axes: Axes, runs: Sequence[Curves]) -> None:
    for number, run in enumerate(runs):
        if not run.bleu:
            continue
        name = f"{run.label}, " if len(runs) > 1 else ""
        best = max(value for _, value in run.bleu)
        axes.plot(
            *zip(*run.bleu, strict=True), **line_style(number), **_marked(run.bleu), label=f"{name}best {best:.1f}"
        )
    _finish(axes, "validation BLEU")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=letters(len(runs)), loc="lower right")


def _marked(points: Points) -> dict[str, Any]:
    """Markers show where it was measured, as long as they can be told apart."""
    return {"linewidth": 1.8, "marker": "o" if len(points) <= 40 else "", "markersize": 4}


def _finish(axes: Axes, what: str) -> None:
    axes.set_xlabel("updates")
    axes.set_ylabel(what)
    axes.grid(axis="y", alpha=0.25)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
