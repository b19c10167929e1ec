"""BLEU by source length, one line for each system, as in fig. 2 of Bahdanau et al. 2015.

https://arxiv.org/abs/1409.0473
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtkit.plot.figure import figure_file, legend_font_size, line_style


@dataclass(frozen=True)
class LengthGroup:
    """Sentences of similar length: the name of the group, such as `11-20`, and the number of lines."""

    name: str
    lines: int


@dataclass(frozen=True)
class BleuByLength:
    """BLEU of one system.

    Attributes:
        label: name of the system.
        bleu: BLEU of each group.
        std: standard deviation of each BLEU over several runs; 0 for a single run.
    """

    label: str
    bleu: Sequence[float]
    std: Sequence[float]


def draw_bleu_by_length(groups: Sequence[LengthGroup], systems: Sequence[BleuByLength], path: Path) -> None:
    """Draw the BLEU of all systems over the same groups, from short to long; `path` is the PNG file to write.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    ticks = range(len(groups))
    with figure_file(path, width=7.0, height=4.2) as figure:
        axes = figure.add_subplot()
        for number, system in enumerate(systems):
            style = line_style(number)
            bleu, std = np.array(system.bleu), np.array(system.std)
            axes.plot(ticks, bleu, **style, linewidth=1.8, marker="o", markersize=4, label=system.label)
            axes.fill_between(ticks, bleu - std, bleu + std, color=style["color"], alpha=0.12, linewidth=0)
        axes.set_xticks(ticks, [f"{group.name}\n{group.lines:,} lines" for group in groups], fontsize=9)
        axes.set_xlabel("source length in words")
        axes.set_ylabel("BLEU")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", alpha=0.25)
        axes.legend(frameon=False, fontsize=legend_font_size(len(systems)))
