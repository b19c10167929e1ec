"""Plots of position encodings: a matrix [position, dimension], or the contribution to attention scores by distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mtkit.plot.figure import figure_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = NDArray[np.floating[Any]]
_MIN_VISIBLE = 1e-4  # share of the range of scores; smaller deviations or differences of heads are rounding errors


@dataclass(frozen=True)
class EncodingPanel:
    """Encoding that is added to the embedding of each position; `matrix` is [positions, D]."""

    title: str
    matrix: Numbers


@dataclass(frozen=True)
class ScorePanel:
    """Contribution of a position encoding to the attention scores of each head, by distance.

    Attributes:
        distance: [N], query position minus key position.
        mean: [H, N], mean over random queries and keys.
        std: [H, N], the standard deviation over it.
    """

    title: str
    distance: NDArray[np.integer[Any]]
    mean: Numbers
    std: Numbers


Panel = EncodingPanel | ScorePanel


def draw_positions(panels: Sequence[Panel], path: Path) -> None:
    """Draw panels side by side; `path` is the PNG file to write.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    with figure_file(path, width=6.0 * len(panels), height=4.2) as figure:
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            axes.set_title(panel.title, fontsize=11)
            if isinstance(panel, EncodingPanel):
                _draw_matrix(figure, axes, panel)
            else:
                _draw_distances(axes, panel)


def _draw_matrix(figure: Figure, axes: Axes, panel: EncodingPanel) -> None:
    largest = float(np.abs(panel.matrix).max()) or 1.0
    image = axes.imshow(
        panel.matrix, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest"
    )
    axes.set_xlabel("dimension")
    axes.set_ylabel("position")
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    bar.set_label("value added to the embedding", fontsize=8)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8)


def _draw_distances(axes: Axes, panel: ScorePanel) -> None:
    import matplotlib as mpl

    visible = _MIN_VISIBLE * max(float(np.abs(panel.mean).max()), float(panel.std.max()), 1e-12)
    heads = len(panel.mean)
    are_equal = np.ptp(panel.mean, axis=0).max() < visible and np.ptp(panel.std, axis=0).max() < visible
    colours = mpl.colormaps["viridis"](np.linspace(0, 0.9, 1 if are_equal else heads))
    for number, colour in enumerate(colours):
        mean, std = panel.mean[number], panel.std[number]
        axes.plot(
            panel.distance, mean, color=colour, linewidth=1.6, label="all heads" if are_equal else f"head {number + 1}"
        )
        if std.max() > visible:
            axes.fill_between(panel.distance, mean - std, mean + std, color=colour, alpha=0.12, linewidth=0)
    axes.axhline(0, color="#999999", linewidth=0.6, zorder=0)
    axes.margins(x=0)
    axes.grid(axis="y", alpha=0.25)
    axes.set_xlabel("query position - key position (positive: the key precedes the query)")
    deviation = ", mean ± standard deviation" if panel.std.max() > visible else ""
    axes.set_ylabel(f"contribution to the score{deviation}")
    axes.legend(frameon=False, fontsize=8, ncols=1 if heads <= 8 else 2)
