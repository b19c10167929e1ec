"""Plot of the gradient over distance, one line for each model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.plot.figure import add_legend, figure_file, line_style, shorten

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LOWEST = 1e-12  # end of the axis; smaller gradients are rounding errors


class GradientCurve(NamedTuple):
    """Norms of gradients by distance in tokens from 0, divided by the largest."""

    label: str
    norms: NDArray[np.floating[Any]]


def draw_gradients(curves: Sequence[GradientCurve], path: Path) -> None:
    """Draw the curves on a logarithmic axis; `path` is the PNG file to write.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    with figure_file(path, width=6.0, height=4.2) as figure:
        axes = figure.subplots()
        for number, (_, norms) in enumerate(curves):
            marker = "o" if len(norms) == 1 else ""  # a line of one point is invisible
            style = {**line_style(number), "marker": marker, "linewidth": 1.6}
            axes.plot(np.arange(len(norms)), np.maximum(norms, LOWEST), **style)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"10{str(round(math.log10(value))).translate(_SUPERSCRIPTS)}")
        axes.yaxis.set_minor_formatter("")  # matplotlib's would write TeX
        axes.set_ylim(bottom=min(axes.get_ylim()[0], 0.05))
        title = "How far back the loss of one token reaches"
        axes.set_title(f"{title}\n{shorten(curves[0].label)}" if len(curves) == 1 else title, fontsize=11)
        axes.set_xlabel("distance from the loss in tokens")
        axes.set_ylabel("gradient of a token's embedding\n(norm, largest = 1)")
        axes.grid(axis="y", alpha=0.25)
        axes.margins(x=0)
        if len(curves) > 1:
            add_legend(figure, axes.lines, [shorten(each.label) for each in curves])
