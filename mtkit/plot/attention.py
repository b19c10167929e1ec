"""Attention map of one translation, as in fig. 3 of Bahdanau et al. 2015. https://arxiv.org/abs/1409.0473"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mtkit.plot.figure import TEXT_COLOUR, figure_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPACE = "\u2581"  # sentencepiece's mark of the space before a word
_NAMES = {"</s>": "(end)", "<s>": "(begin)", "<unk>": "(unknown)"}
_CELL_SIZE = 0.32  # inches
_MAX_SIZE = 40.0  # inches; longer sentences get smaller cells
_MARGIN = 1.6  # inches, for the token labels


def plot_attention(
    weights: NDArray[np.floating[Any]],
    src: Sequence[str],
    hyp: Sequence[str],
    path: Path,
    *,
    title: str = "",
) -> None:
    """Draw the attention of each output token over the source tokens.

    Args:
        weights: [T, S] attention weights between 0 and 1, one row for each output token.
        src: the S source tokens, with the end of sentence if it can be attended to.
        hyp: the T output tokens.
        title: of the figure; none if empty.

    Raises:
        ValueError: the numbers of tokens do not match the weights.
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    if weights.shape != (len(hyp), len(src)) or not weights.size:
        raise ValueError(f"weights {weights.shape} do not match {len(hyp)} output and {len(src)} source tokens")
    width, height = (min(_CELL_SIZE * count + _MARGIN, _MAX_SIZE) for count in (len(src) + 2, len(hyp)))
    with figure_file(path, width=max(width, 4.0), height=max(height, 3.0)) as figure:
        axes = figure.add_subplot()
        image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
        _label_cells(axes, src, hyp)
        axes.set_xlabel("source")
        axes.xaxis.set_label_position("top")
        axes.set_ylabel("translation")
        bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.02, aspect=40, ticks=[0, 0.5, 1])
        bar.set_label("attention weight", fontsize=8)
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0, labelsize=8)
        if title:
            figure.suptitle(title, fontsize=11)


def _label_cells(axes: Axes, src: Sequence[str], hyp: Sequence[str]) -> None:
    axes.set_xticks(range(len(src)), _labels(src), rotation=60, ha="left", rotation_mode="anchor", fontsize=9)
    axes.set_yticks(range(len(hyp)), _labels(hyp), fontsize=9)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    # a line before each word; the pieces of a word touch
    for tokens, draw in ((src, axes.axvline), (hyp, axes.axhline)):
        for number in (each for each, token in enumerate(tokens) if each and _begins_word(token)):
            draw(number - 0.5, color=TEXT_COLOUR, alpha=0.25, linewidth=0.7)


def _begins_word(token: str) -> bool:
    return token.startswith(SPACE) or token in _NAMES or not any(map(str.isalnum, token))


def _labels(tokens: Sequence[str]) -> list[str]:
    """Tokens as a reader knows them: words without the mark of the space, a hyphen before the rest of a word."""
    has_spaces = any(token.startswith(SPACE) for token in tokens)
    return [
        _NAMES.get(token) or token.replace(SPACE, "") or "space"
        if _begins_word(token) or not has_spaces
        else f"-{token}"
        for token in tokens
    ]
