"""Position encodings: a matrix of positions and dimensions, or what is added to attention's scores by distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mtkit.plot.picture import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = NDArray[np.floating[Any]]
_VISIBLE = 1e-4  # of the range of scores; a spread or a difference of heads below it is rounding


@dataclass(frozen=True)
class Encoding:
    """What is added to the embedding of each position, [positions, D]."""

    title: str
    matrix: Numbers


@dataclass(frozen=True)
class ByDistance:
    """What is added to the score at each distance [N] (query position less key position), for each head [H, N].

    Attributes:
        title: of the panel.
        distance: [N].
        mean: [H, N], over what queries and keys may hold.
        spread: [H, N], the standard deviation over it.
    """

    title: str
    distance: NDArray[np.integer[Any]]
    mean: Numbers
    spread: Numbers


Panel = Encoding | ByDistance


def draw_positions(panels: Sequence[Panel], path: Path) -> None:
    """Draw panels beside each other; `path` is the PNG to write.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    with picture(path, width=6.0 * len(panels), height=4.2) as figure:
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            axes.set_title(panel.title, fontsize=11)
            if isinstance(panel, Encoding):
                _draw_matrix(figure, axes, panel)
            else:
                _draw_distances(axes, panel)


def _draw_matrix(figure: Figure, axes: Axes, panel: Encoding) -> None:
    largest = float(np.abs(panel.matrix).max()) or 1.0
    image = axes.imshow(
        panel.matrix, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest"
    )
    axes.set_xlabel("dimension")
    axes.set_ylabel("position")
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8)


def _draw_distances(axes: Axes, panel: ByDistance) -> None:
    import matplotlib as mpl

    visible = _VISIBLE * max(float(np.abs(panel.mean).max()), float(panel.spread.max()), 1e-12)
    heads = len(panel.mean)
    alike = np.ptp(panel.mean, axis=0).max() < visible and np.ptp(panel.spread, axis=0).max() < visible
    colours = mpl.colormaps["viridis"](np.linspace(0, 0.9, 1 if alike else heads))
    for number, colour in enumerate(colours):
        mean, spread = panel.mean[number], panel.spread[number]
        axes.plot(
            panel.distance, mean, color=colour, linewidth=1.6, label="all heads" if alike else f"head {number + 1}"
        )
        if spread.max() > visible:
            axes.fill_between(panel.distance, mean - spread, mean + spread, color=colour, alpha=0.12, linewidth=0)
    axes.axhline(0, color="#999999", linewidth=0.6, zorder=0)
    axes.margins(x=0)
    axes.grid(axis="y", alpha=0.25)
    axes.set_xlabel("query position less key position (above 0: the key came before)")
    spread = ", mean ± standard deviation" if panel.spread.max() > visible else ""
    axes.set_ylabel(f"added to the score{spread}")
    axes.legend(frameon=False, fontsize=8, ncols=1 if heads <= 8 else 2)
