"""BLEU against the length of the source, a line for each system: fig. 2 of Bahdanau et al. 2015 (arXiv:1409.0473)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtkit.plot.picture import letters, line_style, picture


@dataclass(frozen=True)
class Group:
    """Sentences of similar length: what these are called, and how many."""

    name: str
    lines: int


@dataclass(frozen=True)
class ByLength:
    """One system.

    Attributes:
        label: its name.
        bleu: of each group.
        deviation: of each, over several runs; 0 for one alone.
    """

    label: str
    bleu: Sequence[float]
    deviation: Sequence[float]


def draw_by_length(groups: Sequence[Group], systems: Sequence[ByLength], path: Path) -> None:
    """Draw all systems over the same groups, from short to long; `path` is the PNG to write.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    places = range(len(groups))
    with picture(path, width=7.0, height=4.2) as figure:
        axes = figure.add_subplot()
        for number, system in enumerate(systems):
            style = line_style(number)
            bleu, spread = np.array(system.bleu), np.array(system.deviation)
            axes.plot(places, bleu, **style, linewidth=1.8, marker="o", markersize=4, label=system.label)
            axes.fill_between(places, bleu - spread, bleu + spread, color=style["color"], alpha=0.12, linewidth=0)
        axes.set_xticks(places, [f"{group.name}\n{group.lines:,} lines" for group in groups], fontsize=9)
        axes.set_xlabel("words of the source")
        axes.set_ylabel("BLEU")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", alpha=0.25)
        axes.legend(frameon=False, fontsize=letters(len(systems)))
