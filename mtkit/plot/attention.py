"""The attention of one translation as a heat map, as in fig. 3 of Bahdanau et al. 2015 (arXiv:1409.0473)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mtkit.plot.picture import INK, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CELL = 0.32  # inches
_LARGEST = 40.0  # inches; the cells of a long sentence are smaller
_MARGIN = 1.6  # inches for the pieces' names


def plot_attention(
    weights: NDArray[np.floating[Any]],
    src: Sequence[str],
    hyp: Sequence[str],
    path: Path,
    *,
    title: str = "",
) -> None:
    """Draw which source pieces each output piece attended to.

    Args:
        weights: [T, S], each row the attention of one output piece, between 0 and 1.
        src: the S source pieces, end of sentence included if it can be attended to.
        hyp: the T output pieces.
        path: the PNG to write.
        title: of the picture.

    Raises:
        ValueError: the numbers of pieces are not those of the weights.
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    if weights.shape != (len(hyp), len(src)) or not weights.size:
        raise ValueError(f"weights {weights.shape} do not fit {len(hyp)} output and {len(src)} source pieces")
    width, height = (min(_CELL * count + _MARGIN, _LARGEST) for count in (len(src) + 2, len(hyp)))
    with picture(path, width=max(width, 4.0), height=max(height, 3.0)) as figure:
        axes = figure.add_subplot()
        image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
        _name_cells(axes, src, hyp)
        bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.02, ticks=[0, 0.5, 1])
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0, labelsize=8)
        if title:
            figure.suptitle(title, fontsize=11)


def _name_cells(axes: Axes, src: Sequence[str], hyp: Sequence[str]) -> None:
    axes.set_xticks(range(len(src)), list(src), rotation=60, ha="left", rotation_mode="anchor", fontsize=9)
    axes.set_yticks(range(len(hyp)), list(hyp), fontsize=9)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    # thin lines between the cells
    axes.set_xticks(np.arange(-0.5, len(src)), minor=True)
    axes.set_yticks(np.arange(-0.5, len(hyp)), minor=True)
    axes.grid(which="minor", color=INK, alpha=0.12, linewidth=0.6)
    axes.tick_params(which="minor", length=0)
