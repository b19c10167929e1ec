"""What all pictures share: matplotlib without its global state, fonts for many scripts, durable files.

Needs the extra [plot]; matplotlib is imported by whoever draws, never by importing this package.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.errors import MissingExtraError
from mtkit.io.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# told apart by the colour-blind too: Okabe and Ito 2008, without black and yellow
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
INK = "#333333"
_LINES = ("-", "--", ":", "-.")  # the next style for the lines that the colours do not suffice for
_MANY = 6  # lines that a legend names at its usual size
_DOTS_PER_INCH = 150
# after matplotlib's own font, which has no Chinese, Japanese, Korean or Indic letters; those that are there are used
_FONTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Devanagari", "Noto Sans Arabic", "Hiragino Sans")


def is_installed() -> bool:
    """Whether matplotlib is there."""
    return importlib.util.find_spec("matplotlib") is not None


def line_style(number: int) -> dict[str, Any]:
    """Colour and kind of the line with that number, from 0."""
    return {"color": _COLOURS[number % len(_COLOURS)], "linestyle": _LINES[number // len(_COLOURS) % len(_LINES)]}


def letters(lines: int) -> float:
    """Their size in a legend of so many lines, in points."""
    return 9.0 if lines <= _MANY else 6.5


@contextmanager
def picture(path: Path, *, width: float, height: float) -> Iterator[Figure]:
    """Give an empty figure of so many inches; at the end of the block it is written to `path` as PNG.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    if not is_installed():
        raise MissingExtraError("plot", "matplotlib")
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.font_manager import fontManager
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    there = set(fontManager.get_font_names())
    settings: Any = {
        "font.family": ["DejaVu Sans", *(font for font in _FONTS if font in there)],
        "text.color": INK,
        "text.parse_math": False,  # a piece may hold a dollar sign
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    with mpl.rc_context(settings), warnings.catch_warnings():
        # a letter that no font has is drawn as a box; that is no reason to talk
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(
            figsize=(width, height), dpi=_DOTS_PER_INCH, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
        )
        yield figure
        with write_atomically(path) as temporary:
            figure.savefig(temporary, format="png")
