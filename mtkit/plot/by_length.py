"""BLEU by source length, one bar for each system, as in fig. 2 of Bahdanau et al. 2015.

https://arxiv.org/abs/1409.0473
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtkit.plot.figure import TEXT_COLOUR, add_legend, figure_file, line_style, shorten


@dataclass(frozen=True)
class LengthGroup:
    """Sentences of similar length: the name of the group, such as `11-20`, and the number of lines."""

    name: str
    lines: int


@dataclass(frozen=True)
class BleuByLength:
    """BLEU of one system.

    Attributes:
        bleu: BLEU of each group.
        margin: half of the whisker of each BLEU; 0 for none.
    """

    label: str
    bleu: Sequence[float]
    margin: Sequence[float]


def draw_bleu_by_length(
    groups: Sequence[LengthGroup], systems: Sequence[BleuByLength], path: Path, *, whiskers: str = ""
) -> None:
    """Draw the BLEU of all systems over the same groups, from short to long.

    Args:
        whiskers: what the margins are, such as `95% interval`; empty: not said.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the file cannot be written.
    """
    width = 0.8 / len(systems)
    highest = max(value + margin for each in systems for value, margin in zip(each.bleu, each.margin, strict=True))
    with figure_file(path, width=max(7.0, 1.2 * len(groups)), height=4.2) as figure:
        axes, bars = figure.add_subplot(), []
        for number, system in enumerate(systems):
            places = np.arange(len(groups)) + (number - (len(systems) - 1) / 2) * width
            colour, margin = line_style(number)["color"], np.array(system.margin)
            bars.append(axes.bar(places, system.bleu, 0.9 * width, color=colour, alpha=0.75))
            if margin.any():
                axes.errorbar(places, system.bleu, margin, fmt="none", ecolor=TEXT_COLOUR, elinewidth=1.2, capsize=3)
        axes.set_xticks(range(len(groups)), [f"{group.name}\n{group.lines:,} lines" for group in groups], fontsize=9)
        axes.set_xlabel("length of the source in words" + (f"; whiskers: {whiskers}" if whiskers else ""))
        axes.set_ylabel("BLEU")
        axes.set_ylim(0, 1.08 * highest or 1)
        axes.grid(axis="y", alpha=0.25)
        axes.set_axisbelow(True)
        if len(systems) == 1:
            axes.set_title(shorten(systems[0].label), fontsize=11)
        else:
            add_legend(figure, bars, [shorten(system.label) for system in systems])
