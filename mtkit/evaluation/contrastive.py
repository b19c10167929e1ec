"""Contrastive pairs: whether a model finds a right translation more probable than one with a single error.

LingEval97 (Sennrich 2017, https://aclanthology.org/E17-2060/), and ContraPro (Müller et al. 2018,
https://aclanthology.org/W18-6307/), whose kinds are the distance of a pronoun.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mtkit.display import Table
from mtkit.errors import DataError

Z = 1.959964  # of a 95% interval
NUM_SHOWN = 5  # pairs of which the wrong translation is most ahead


@dataclass(frozen=True)
class ContrastivePair:
    """A source with a right and a wrong translation; the kind of its error, "" for none."""

    line: int
    source: str
    right: str
    wrong: str
    kind: str = ""


def read_pairs(lines: Iterable[str], name: str) -> list[ContrastivePair]:
    """The pairs of a text: source, right and wrong translation, and perhaps a kind, with tabs between.

    Raises:
        DataError: a line has another form, both translations are equal, or there is no line.
    """
    pairs = []
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) not in (3, 4) or not (cells[1] and cells[2]):
            raise DataError(
                f"{name}:{number}: {len(cells)} columns; give source, right and wrong translation, perhaps the kind "
                "of the error, with tabs between"
            )
        if cells[1] == cells[2]:
            raise DataError(f"{name}:{number}: the right and the wrong translation are equal")
        pairs.append(ContrastivePair(number, *cells))
    if not pairs:
        raise DataError(f"{name}: no lines; there is nothing to score")
    return pairs


@dataclass(frozen=True)
class ContrastiveScores:
    """Log-probabilities in nats of the right and the wrong translation of each pair."""

    pairs: Sequence[ContrastivePair]
    log_probs: Sequence[tuple[float, float]]

    def accuracies(self) -> Iterator[tuple[str, int, int]]:
        """Kind, pairs, and pairs whose right translation is more probable: first of all pairs, with kind "".

        The probability is that of the whole sentence; equal ones count as wrong.
        """
        is_right = [right > wrong for right, wrong in self.log_probs]
        yield "", len(is_right), sum(is_right)
        kinds = sorted({pair.kind for pair in self.pairs if pair.kind})
        for kind in kinds:
            of_kind = [each for pair, each in zip(self.pairs, is_right, strict=True) if pair.kind == kind]
            yield kind, len(of_kind), sum(of_kind)

    def table(self) -> Table:
        """Accuracy of each kind in percent, with its 95% interval."""
        rows = []
        for kind, count, right in self.accuracies():
            low, high = wilson_interval(right, count)
            interval = f"{100 * low:.1f} to {100 * high:.1f}"
            rows.append([kind or "all pairs", f"{count:,}", f"{right:,}", f"{100 * right / count:.1f}", interval])
        return Table(["kind", "pairs", "right", "accuracy %", "95% interval"], rows, text=("kind",))

    def examples(self) -> list[str]:
        """The pairs whose wrong translation is most ahead, with source and both translations."""
        margins = [(wrong - right, pair) for pair, (right, wrong) in zip(self.pairs, self.log_probs, strict=True)]
        lost = sorted((each for each in margins if each[0] >= 0), key=lambda each: (-each[0], each[1].line))
        lines = []
        for margin, pair in lost[:NUM_SHOWN]:
            kind = f" ({pair.kind})" if pair.kind else ""
            lines.append(f"line {pair.line}{kind}: the wrong one is more probable by {margin:.2f} nats")
            lines += [f"  source  {pair.source}"] if pair.source else []
            lines += [f"  right   {pair.right}", f"  wrong   {pair.wrong}"]
        return lines

    def as_dict(self) -> dict[str, Any]:
        """For JSON: accuracy by kind, and the log-probabilities of each pair."""
        kinds = {
            kind: {"pairs": count, "accuracy": right / count, "interval": [*wilson_interval(right, count)]}
            for kind, count, right in self.accuracies()
        }
        rows = [
            {"line": pair.line, "kind": pair.kind, "right": right, "wrong": wrong}
            for pair, (right, wrong) in zip(self.pairs, self.log_probs, strict=True)
        ]
        return {"accuracy": kinds.pop(""), "kinds": kinds, "lines": rows}


def texts_of(pairs: Iterable[ContrastivePair]) -> Iterator[tuple[str, str]]:
    """Source and translation of both sides of each pair, to be scored in this order."""
    return itertools.chain.from_iterable(((each.source, each.right), (each.source, each.wrong)) for each in pairs)


def wilson_interval(right: int, count: int) -> tuple[float, float]:
    """95% interval of a share (Wilson 1927), also of 0 and of 1, whose normal interval would be a point."""
    share, spread = right / count, Z**2 / count
    centre = (share + spread / 2) / (1 + spread)
    margin = Z * (share * (1 - share) / count + spread / (4 * count)) ** 0.5 / (1 + spread)
    return max(0.0, centre - margin), min(1.0, centre + margin)
