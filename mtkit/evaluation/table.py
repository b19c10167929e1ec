"""Scores as a table on the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from mtkit.evaluation.score import Scores

_HEADINGS = {"bleu": "BLEU", "bleu_moses_lc": "BLEU (Moses, lower case)", "chrf": "chrF2", "ter": "TER"}


def score_table(rows: Mapping[str, Scores], *, title: str | None = None) -> Table:
    """One row for each system or test set, one column for each metric that any row has."""
    present = {name for scores in rows.values() for name in scores.by_name()}
    names = [name for name in _HEADINGS if name in present]
    table = Table(title=title)
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_column(_HEADINGS[name], justify="right")
    for label, scores in rows.items():
        by_name = scores.by_name()
        table.add_row(label, *(f"{by_name[name].value:.2f}" if name in by_name else "" for name in names))
    return table


def signature_lines(rows: Mapping[str, Scores]) -> list[str]:
    """Each distinct signature once, after the name of its metric."""
    lines = [
        f"{_HEADINGS[name]}: {score.signature}" for scores in rows.values() for name, score in scores.by_name().items()
    ]
    return list(dict.fromkeys(lines))
