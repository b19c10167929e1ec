"""Figures: matplotlib without its global state, fonts for many scripts, atomic writes.

Needs the extra [plot]. Matplotlib is imported when a figure is drawn, not when this package is imported.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.errors import MissingExtraError
from mtkit.io.files import write_atomically

if TYPE_CHECKING:
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
    _report_missing_glyphs(path, [str(each.message) for each in caught])


def _report_missing_glyphs(path: Path, messages: Iterable[str]) -> None:
    """Write a note to stderr about characters that matplotlib drew as boxes, of which it warns one by one."""
    found = (re.match(r"Glyph (\d+) .* missing from font", message) for message in messages)
    characters = "".join(sorted({chr(int(match[1])) for match in found if match}))
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
