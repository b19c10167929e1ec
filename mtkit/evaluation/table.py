"""Scores as a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from mtkit.display import Table
from mtkit.evaluation.comparison import GroupScores
from mtkit.evaluation.score import Scores

HEADINGS: Mapping[str, str] = {
    "bleu": "BLEU",
    "bleu_moses_lc": "BLEU (lower-cased Moses tokens)",
    "chrf": "chrF2",
    "chrf++": "chrF2++",
    "ter": "TER",
}


def score_table(
    rows: Mapping[str, Scores],
    *,
    label: str = "system",
    p_values: Mapping[str, Mapping[str, Mapping[str, float]]] = MappingProxyType({}),
    best: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Table:
    """One row for each metric and system or test set.

    Args:
        p_values: by test, metric and system (see Comparison); one more column for each test.
        best: the best systems of each metric, whose scores are marked with a star.
    """
    names = [name for name in HEADINGS if any(name in scores.by_name() for scores in rows.values())]
    cells = []
    for name, (system, scores) in ((name, row) for name in names for row in rows.items()):
        if (score := scores.by_name().get(name)) is None:
            continue
        interval = "" if score.interval is None else f"{score.interval.mean:.2f} ± {score.interval.margin:.2f}"
        p_of_tests = [p_values[test].get(name, {}).get(system) for test in p_values]
        star = "* " if system in best.get(name, ()) else ""
        p_cells = ("" if p is None else f"{p:.4f}" for p in p_of_tests)
        cells.append([HEADINGS[name], system, f"{star}{score.value:.2f}", interval, *p_cells])
    has_intervals = any(row[3] for row in cells)
    headings = ["metric", label, "score", "95% interval", *(f"p ({test})" for test in p_values)]
    if not has_intervals:
        headings, cells = _without(3, headings), [_without(3, row) for row in cells]
    return Table(headings, cells, text=("metric", label))


def _without(index: int, cells: list[str]) -> list[str]:
    return [*cells[:index], *cells[index + 1 :]]


def group_table(groups: Iterable[GroupScores], *, title: str | None = None) -> Table:
    """One row for each group of segments, one column for each metric and system."""
    groups = list(groups)
    columns = [(metric, system) for metric in HEADINGS for system in groups[0].scores.get(metric, ())]
    is_single = len({system for _, system in columns}) == 1
    names = [HEADINGS[metric] if is_single else f"{HEADINGS[metric]} {system}" for metric, system in columns]
    rows = [
        [group.name, f"{group.lines:,}", *(f"{group.scores[metric][system]:.2f}" for metric, system in columns)]
        for group in groups
    ]
    return Table(["group", "lines", *names], rows, text=("group",), title=title)


def signature_lines(rows: Mapping[str, Scores]) -> list[str]:
    """Each distinct signature once, after the name of its metric."""
    lines = [
        f"{HEADINGS[name]}: {score.signature}" for scores in rows.values() for name, score in scores.by_name().items()
    ]
    return list(dict.fromkeys(lines))
