"""Curves and matrices as files of pictures; matplotlib without its global state, atomic writes.

Needs the extra [plot]. Matplotlib is imported when a figure is drawn, not when this package is imported.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import MissingExtraError
from mtkit.io.files import write_atomically
from mtkit.plot.page import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# distinguishable with colour blindness: Okabe and Ito 2008, without black and yellow
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
TEXT_COLOUR = "#333333"
_LINE_STYLES = ("-", "--", ":", "-.")  # the next style is used once all colours are
_MAX_NAME = 64  # characters of a name in a picture
_TITLE_WIDTH = 60  # characters of a line of a title
_MAX_MARKERS = 40  # points of a curve that are marked
_DOTS_PER_INCH = 120
_MAX_MISSING = 20  # characters that a note lists
# fallbacks, if installed, after matplotlib's own font, which lacks Chinese, Japanese, Korean and Indic scripts
_FONTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Devanagari", "Noto Sans Arabic", "Hiragino Sans")


def is_installed() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def shorten(name: str) -> str:
    """A name that fits into a picture: a long one keeps both ends."""
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME // 3]}…{name[-2 * _MAX_NAME // 3 :]}"


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


@dataclass(frozen=True)
class EncodingPanel:
    """Encoding that is added to the embedding of each position; `matrix` is [positions, D]."""

    title: str
    matrix: NDArray[np.floating[Any]]


def draw(panels: Sequence[Picture | EncodingPanel], path: Path) -> None:
    """Draw panels side by side; `path` is the file to write.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    legend = max((len(panel.curves) for panel in panels if isinstance(panel, Picture)), default=0)
    with figure_file(path, width=6.0 * len(panels), height=4.2 + 0.2 * legend) as figure:
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            axes.set_title("\n".join(textwrap.wrap(panel.title, _TITLE_WIDTH)), fontsize=11)
            if isinstance(panel, EncodingPanel):
                _draw_matrix(figure, axes, panel)
            else:
                _draw_curves(axes, panel)


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


def _draw_curves(axes: Axes, panel: Picture) -> None:
    for number, curve in enumerate(panel.curves):
        style: dict[str, Any] = {
            "color": _COLOURS[number % len(_COLOURS)],
            "linestyle": _LINE_STYLES[number // len(_COLOURS) % len(_LINE_STYLES)],
        }
        marker = "o" if len(curve.points) <= _MAX_MARKERS else ""  # also since a line of one point is invisible
        label = shorten(curve.name)
        axes.plot(*zip(*curve.points, strict=True), **style, marker=marker, markersize=4, linewidth=1.6, label=label)
        if curve.band:
            x, low, high = zip(*curve.band, strict=True)
            axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    axes.grid(axis="y", alpha=0.25)
    axes.locator_params(axis="x", nbins=5, integer=True, min_n_ticks=1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.16), frameon=False, fontsize=9)
