"""Claims and results for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from mtkit.evidence.claim import ClaimConfig, claim_names, read_config
from mtkit.evidence.report import current_result, verdict_text
from mtkit.evidence.results import ClaimResult
from mtkit.evidence.verdict import outlook


def claims_table(folder: Path) -> Table:
    """All claims with source, stored verdict and expected time.

    Args:
        folder: of the results.
    """
    table = Table("claim", "source", "verdict", "minutes", "statement")
    for name in claim_names():
        config = read_config(name)[1]
        verdict = verdict_text(current_result(folder, name, config))
        table.add_row(name, config.source, verdict, f"{config.minutes:g}", config.claim)
    return table


def result_lines(config: ClaimConfig, result: ClaimResult) -> Iterator[str]:
    """Statement, verdict, and one line for each comparison."""
    yield f"{result.name}: {config.claim} ({config.source})"
    for each in result.checks:
        check, effect = each.check, each.effect
        interval = "one seed" if effect.low is None else f"95% interval {effect.low:+.3f} to {effect.high:+.3f}"
        yield (
            f"  {check.of} against {check.against}, {check.metric}, expected {check.expect}: "
            f"{effect.mean:+.3f} {check.unit} ({interval}): {each.verdict.value}"
        )
        expected = outlook(check, effect)
        if expected is not None:
            yield f"    with {expected.factor} times the data {expected.verdict.value}, if the effect stays"
    yield f"{result.name}: {result.verdict.value}"
