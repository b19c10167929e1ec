"""The result of a study as a table: for the terminal, for Markdown, and for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from mtkit.study.results import Results, Row, Spread, figures_of
from mtkit.study.runs import State

LEFT = ("variant", "runs", "p")  # columns of text; the others hold numbers


@dataclass(frozen=True)
class Look:
    """How a figure is shown."""

    heading: str
    digits: int
    with_spread: bool = True

    def show(self, spread: Spread | None) -> str:
        """Mean and standard deviation; nothing if there is no figure."""
        if spread is None:
            return ""
        shown = f"{spread.mean:,.{self.digits}f}"
        if spread.deviation is None or not self.with_spread:
            return shown
        return f"{shown} ± {spread.deviation:,.{self.digits}f}"


LOOKS = {
    "bleu": Look("BLEU", 2),
    "loss": Look("loss", 3),
    "free_running_loss": Look("free-running loss", 3),
    "repetition": Look("repetition %", 1),
    "tokens_per_second": Look("tokens/s", 0, with_spread=False),
    "lines_per_second": Look("lines/s", 0, with_spread=False),
}


def look_of(figure: str) -> Look:
    """Of a figure; `bleu 1-10` is that of a group of sentences."""
    return LOOKS[figure] if figure in LOOKS else Look(figure.replace("bleu", "BLEU"), 1)


def headings(results: Results) -> list[str]:
    """Of the columns."""
    shown = [look_of(figure).heading for figure in figures_of(results.study.config)]
    return ["variant", "parameters", *shown, "p", "runs"]


def rows(results: Results) -> list[list[str]]:
    """The cells of every variant as text."""
    return [_cells(row, results) for row in results.rows]


def _cells(row: Row, results: Results) -> list[str]:
    figures = [look_of(name).show(row.figures.get(name)) for name in figures_of(results.study.config)]
    parameters = "" if row.parameters is None else f"{row.parameters:,}"
    is_baseline = row.variant == results.study.baseline
    tested = "baseline" if is_baseline else " ".join(f"{p:.3f}" for p in row.p_values.values())
    return [row.variant, parameters, *figures, tested, _runs(row)]


def _runs(row: Row) -> str:
    """`3`, or `1, 1 failed, 1 unfinished`."""
    others = [f"{row.count(state)} {state}" for state in (State.failed, State.unfinished) if row.count(state)]
    return ", ".join([str(row.count(State.finished)), *others])


def study_table(results: Results) -> Table:
    """For the terminal."""
    table = Table(title=results.study.config.name)
    for heading in headings(results):
        table.add_column(heading, justify="left" if heading in LEFT else "right", no_wrap=heading == "variant")
    for cells in rows(results):
        table.add_row(*cells)
    return table


def notes(results: Results) -> list[str]:
    """What the figures are, a sentence a line, and what failed."""
    study = results.study
    seeds = ", ".join(str(seed) for seed in study.config.seeds)
    lines = [
        f"BLEU on {study.test}; mean ± standard deviation over the seeds {seeds}. Loss: nats per target piece of the "
        "valid set under teacher forcing, of the best checkpoint. tokens/s: of training, both sides. lines/s: of "
        "translating the test set."
    ]
    if results.lines_by_length:
        groups = ", ".join(f"{count:,} of {name}" for name, count in results.lines_by_length.items())
        lines.append(f"BLEU by the words of the source; lines of the test set: {groups}.")
    if results.reference_repetition is not None:
        lines.append(
            "Free-running loss: of the true pieces where the decoder reads its own instead. Repetition: pairs of words "
            f"that stood in the same line before; of the reference {results.reference_repetition:.1f} %."
        )
    if results.signature:
        lines.append(f"p: paired bootstrap against {study.baseline}, seed by seed; {results.signature}.")
    return [*lines, *(f"failed: {failure}" for failure in results.failures())]


def markdown(results: Results) -> str:
    """The table and its notes."""
    sides = ["---" if heading in LEFT else "---:" for heading in headings(results)]
    lines = [_line(headings(results)), _line(sides), *(_line(cells) for cells in rows(results))]
    listed = [f"- {note}" for note in notes(results)]
    return "\n".join([f"# Study {results.study.config.name}", "", *lines, "", *listed]) + "\n"


def _line(cells: Sequence[str]) -> str:
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


def as_csv(results: Results) -> str:
    """A line for each variant, numbers in full."""
    names, seeds = figures_of(results.study.config), results.study.config.seeds
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    figures = [f"{name} {part}" for name in names for part in ("mean", "deviation")]
    writer.writerow(["variant", "parameters", "finished", "failed", *figures, *(f"p seed {seed}" for seed in seeds)])
    for row in results.rows:
        spreads = [row.figures.get(name) for name in names]
        pairs = [(None, None) if spread is None else (spread.mean, spread.deviation) for spread in spreads]
        counts = [row.count(State.finished), row.count(State.failed)]
        p_values = [row.p_values.get(seed) for seed in seeds]
        writer.writerow([row.variant, row.parameters, *counts, *(cell for pair in pairs for cell in pair), *p_values])
    return stream.getvalue()


def as_json(results: Results) -> dict[str, Any]:
    """Everything that is known, run by run."""
    study = results.study
    return {
        "study": study.config.name,
        "test": study.test,
        "baseline": study.baseline,
        "seeds": study.config.seeds,
        "signature": results.signature,
        "lines_by_length": dict(results.lines_by_length),
        "variants": {row.variant: _row_as_json(row) for row in results.rows},
    }


def _row_as_json(row: Row) -> dict[str, Any]:
    return {
        "parameters": row.parameters,
        "figures": {name: {"mean": s.mean, "deviation": s.deviation} for name, s in row.figures.items()},
        "p_values": {str(seed): p for seed, p in row.p_values.items()},
        "runs": {
            str(one.run.seed): {"state": one.state.value, "reason": one.reason, **one.figures} for one in row.outcomes
        },
    }
