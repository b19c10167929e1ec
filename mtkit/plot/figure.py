"""Figures: gradients and positions; matplotlib without its global state, atomic writes.

Needs the extra [plot]. Matplotlib is imported when a figure is drawn, not when this package is imported.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import MissingExtraError
from mtkit.io.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# distinguishable with colour blindness: Okabe and Ito 2008, without black and yellow
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
TEXT_COLOUR = "#333333"
_LINE_STYLES = ("-", "--", ":", "-.")  # the next style is used once all colours are
_MAX_NAME = 36  # characters of a name in a picture
_DOTS_PER_INCH = 120
_MAX_MISSING = 20  # characters that a note lists
# fallbacks, if installed, after matplotlib's own font, which lacks Chinese, Japanese, Korean and Indic scripts
_FONTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Devanagari", "Noto Sans Arabic", "Hiragino Sans")


def is_installed() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def line_style(number: int) -> dict[str, Any]:
    """Colour and style of a line; lines are numbered from 0."""
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "linestyle": _LINE_STYLES[number // len(_COLOURS) % len(_LINE_STYLES)],
    }


def shorten(name: str) -> str:
    """A name that fits into a picture: a long one keeps both ends."""
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME // 3]}…{name[-2 * _MAX_NAME // 3 :]}"


def add_legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Add a legend below the axes, with as many columns as fit."""
    columns = int(figure.get_figwidth() / (0.6 + 0.085 * max(map(len, labels))))
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(max(columns, 1), len(labels)), frameon=False, fontsize=9
    )


@contextmanager
def figure_file(path: Path, *, width: float, height: float) -> Iterator[Figure]:
    """Yield an empty figure of `width` × `height` inches and write it to `path` when the block ends.

    The suffix of `path` decides the form: .svg, .pdf, else PNG. A note on stderr lists characters without a font.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    if not is_installed():
        raise MissingExtraError("plot", "matplotlib")
    backend = os.environ.get("MPLBACKEND", "").removeprefix("module://").partition(".")[0]
    if backend == "matplotlib_inline" and importlib.util.find_spec(backend) is None:
        del os.environ["MPLBACKEND"]  # of a notebook in another environment; matplotlib would not be imported
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.font_manager import fontManager
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    installed_fonts = set(fontManager.get_font_names())
    settings: Any = {
        "font.family": ["DejaVu Sans", *(font for font in _FONTS if font in installed_fonts)],
        "text.color": TEXT_COLOUR,
        "text.parse_math": False,  # tokens may contain a dollar sign
        "axes.edgecolor": TEXT_COLOUR,
        "axes.labelcolor": TEXT_COLOUR,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": TEXT_COLOUR,
        "ytick.color": TEXT_COLOUR,
    }
    form = path.suffix.removeprefix(".").lower()
    with mpl.rc_context(settings), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = Figure(
            figsize=(width, height), dpi=_DOTS_PER_INCH, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
        )
        yield figure
        with write_atomically(path) as temporary:
            figure.savefig(temporary, format=form if form in ("svg", "pdf") else "png")
    # matplotlib draws characters that no font has as boxes, and warns of them one by one
    missing = (re.match(r"Glyph (\d+) .* missing from font", str(each.message)) for each in caught)
    characters = "".join(sorted({chr(int(match[1])) for match in missing if match}))
    if characters:
        more = f" and {len(characters) - _MAX_MISSING} more" if len(characters) > _MAX_MISSING else ""
        sys.stderr.write(
            f"{path}: no installed font has {characters[:_MAX_MISSING]}{more}, drawn as boxes; install one of "
            f"{', '.join(_FONTS)} (Debian: fonts-noto)\n"
        )


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """The last part of each path, with as many of the parts before it as tell the paths apart."""
    parts = [path.resolve().parts for path in paths]
    for count in range(1, max(map(len, parts), default=1)):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(set(parts)):
            break
    return names


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
