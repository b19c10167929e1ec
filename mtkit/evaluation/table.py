"""Scores as a table on the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from rich.table import Table
from rich.text import Text

from mtkit.evaluation.comparison import GroupScores
from mtkit.evaluation.score import Score, Scores

_HEADINGS = {
    "bleu": "BLEU",
    "bleu_moses_lc": "BLEU (Moses, lower case)",
    "chrf": "chrF2",
    "chrf++": "chrF2++",
    "ter": "TER",
}


def score_table(
    rows: Mapping[str, Scores],
    *,
    title: str | None = None,
    p_values: Mapping[str, Mapping[str, Mapping[str, float]]] = MappingProxyType({}),
    best: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Table:
    """One row for each system or test set, one column for each metric that any row has.

    Args:
        rows: the scores.
        title: heading.
        p_values: by test, metric and system (see Comparison); one more column for each test of a metric.
        best: the best systems of each metric, whose scores are bold and marked with a star.
    """
    present = {name for scores in rows.values() for name in scores.by_name()}
    names = [name for name in _HEADINGS if name in present]
    table = Table(title=title)
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_column(_HEADINGS[name], justify="right", no_wrap=True)
        for test in p_values:
            table.add_column(f"p ({test})", justify="right")
    for label, scores in rows.items():
        by_name = scores.by_name()
        cells = []
        for name in names:
            is_best = label in best.get(name, ())
            text = f"{_format(by_name[name])}{' *' if is_best else ''}" if name in by_name else ""
            cells.append(Text(text, style="bold" if is_best else ""))
            cells += [_format_p(p_values[test].get(name, {}).get(label)) for test in p_values]
        table.add_row(label, *cells)
    return table


def group_table(groups: Iterable[GroupScores], *, title: str | None = None) -> Table:
    """One row for each group of segments, one column for each metric and system."""
    groups = list(groups)
    table = Table(title=title)
    table.add_column("", no_wrap=True)
    table.add_column("lines", justify="right")
    columns = [(metric, system) for metric in _HEADINGS for system in groups[0].scores.get(metric, ())]
    for metric, system in columns:
        table.add_column(_HEADINGS[metric] if len(groups[0].scores[metric]) == 1 else f"{_HEADINGS[metric]} {system}")
    for group in groups:
        cells = [f"{group.scores[metric][system]:.2f}" for metric, system in columns]
        table.add_row(group.name, f"{group.lines:,}", *cells)
    return table


def _format(score: Score) -> str:
    interval = "" if score.interval is None else f" ({score.interval.mean:.2f} ± {score.interval.margin:.2f})"
    return f"{score.value:.2f}{interval}"


def _format_p(p_value: float | None) -> Text:
    return Text("" if p_value is None else f"{p_value:.4f}")


def signature_lines(rows: Mapping[str, Scores]) -> list[str]:
    """Each distinct signature once, after the name of its metric."""
    lines = [
        f"{_HEADINGS[name]}: {score.signature}" for scores in rows.values() for name, score in scores.by_name().items()
    ]
    return list(dict.fromkeys(lines))
