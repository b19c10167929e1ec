"""Layout of pictures with any content: no text is cut off by the edge or written over another text."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from mtkit.describe.plots import DistanceScores, picture_of_scores
from mtkit.plot.curves import LearningCurves, training_pictures
from mtkit.plot.figure import EncodingPanel, draw
from mtkit.plot.page import Curve, Picture
from mtkit.study.run import mean_curves
from tests.toy.sampling import sampled


def curves(rng: random.Random, path: Path) -> None:
    draw(training_pictures([_curves(rng, name) for name in _names(rng)]), path)


def study_curves(rng: random.Random, path: Path) -> None:
    seeds = rng.randint(1, 4)
    runs = [mean_curves(name, [_validation(rng, name) for _ in range(seeds)]) for name in _names(rng)]
    draw(training_pictures(runs), path)


def gradients(rng: random.Random, path: Path) -> None:
    fall = rng.random()
    curves = [Curve(name, [(n, n * np.log10(fall)) for n in range(rng.randint(1, 64))]) for name in _names(rng)]
    draw([Picture("How far back the loss of one token reaches", curves, "distance", "gradient\n(log10)")], path)


def positions(rng: random.Random, path: Path) -> None:
    heads, distance = rng.randint(1, 16), np.arange(-64, 65)
    scores = np.random.default_rng(1).random((heads, len(distance))) * 10 ** rng.randint(-3, 4)
    panels = [
        picture_of_scores("encoder: rope, layer 1", DistanceScores(distance, scores, scores * rng.choice([0, 1])))
    ]
    draw(rng.choice([panels, [EncodingPanel("decoder: learned", scores)], panels * 2]), path)


@pytest.mark.whole
@pytest.mark.parametrize("draw", [curves, study_curves, gradients, positions])
@pytest.mark.parametrize("seed", range(sampled(40)))  # 160 pictures
def test_no_text_is_cut_or_covered(
    draw: Callable[[random.Random, Path], None], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *_, **__: (drawn.append(figure), figure.draw_without_rendering())
    )
    monkeypatch.setattr("mtkit.plot.figure.write_atomically", _WrittenNowhere)
    draw(random.Random(seed), tmp_path / "p.png")
    (figure,) = drawn
    for text in figure.findobj(lambda each: isinstance(each, Text) and each.get_visible() and each.get_text().strip()):
        box = text.get_window_extent()
        assert _is_inside(box, figure.bbox) or _is_off_axis(text, figure), text
    for axes in figure.axes:
        assert axes.get_xlabel() or axes.get_ylabel()
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            shown = [each.get_window_extent() for each in labels if each.get_text().strip() and not each.get_rotation()]
            assert not any(one.shrunk(0.9, 0.9).overlaps(other) for one, other in pairwise(shown))
        if axes.get_xlabel() == "updates":
            assert not _misplaced(axes)
        assert not any(_is_invisible(line) for line in axes.lines)
        boxes = [
            each.get_window_extent() for each in (axes.title, axes.xaxis.label, axes.yaxis.label) if each.get_text()
        ]
        assert not any(one.overlaps(other) for one, other in pairwise(boxes))


def _misplaced(axes: Axes) -> list[str]:
    """Labels of updates that stand at another number."""
    labels = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    return [each.get_text() for at, each in labels if float(each.get_text().replace(",", "").replace("−", "-")) != at]


def _is_invisible(line: Line2D) -> bool:
    """Whether this is a line of one point, without a marker there."""
    return len(line.get_xdata()) == 1 and line.get_marker() in {"", "None", None}


class _WrittenNowhere:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: Any) -> None: ...


def _is_inside(box: Bbox, page: Bbox) -> bool:
    return page.x0 - 1 <= box.x0 and box.x1 <= page.x1 + 1 and page.y0 - 1 <= box.y0 and box.y1 <= page.y1 + 1


def _is_off_axis(text: Text, figure: Figure) -> bool:
    """Whether this is the label of a tick outside the limits of its axis, which is not drawn."""
    return any(
        text in axis.get_ticklabels(which="both") and text not in {each.label1 for each in axis._update_ticks()}
        for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)
    )  # fmt: skip


def _names(rng: random.Random) -> list[str]:
    words = ["base", "runs/quickstart", "no dropout", "model.attention.positions.kind=rotary", "übung", "50 % $x_1$"]
    return rng.sample(words, k=rng.randint(1, 6))


def _points(rng: random.Random, top: float) -> Iterator[tuple[int, float]]:
    step = rng.choice([1, 25, 5000])
    updates = rng.choice([1, 2, 4, 39])
    return ((update * step, rng.random() * top) for update in range(1, updates + 1))


def _curves(rng: random.Random, name: str) -> LearningCurves:
    has_bleu = rng.random() < 0.7
    return LearningCurves(name, *(list(_points(rng, top)) for top in (9, 0.01, 100)[: 3 if has_bleu else 2]))


def _validation(rng: random.Random, name: str) -> LearningCurves:
    return LearningCurves(
        name, nll=[(n, rng.random()) for n in range(9)], bleu=[(n, 30 * rng.random()) for n in range(9)]
    )
