"""Claims and results for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mtkit.evidence.claim import ClaimConfig
from mtkit.evidence.details import effect_text
from mtkit.evidence.report import read_claims
from mtkit.evidence.results import ClaimResult
from mtkit.io.table import Table


def claims_table(folder: Path) -> Table:
    """All claims with source, verdict, and expected time.

    Args:
        folder: of the results.
    """
    rows = []
    for claim in read_claims(folder).values():
        config = claim.config
        rows.append([claim.name, config.source, claim.verdict_text, f"{config.minutes:g}", config.claim])
    headings = ["claim", "source", "verdict", "minutes", "statement"]
    return Table(headings, rows, text=[heading for heading in headings if heading != "minutes"])


def result_lines(config: ClaimConfig, result: ClaimResult) -> Iterator[str]:
    """Statement, verdict, and one line for each comparison."""
    yield f"{result.name}: {config.claim} ({config.source})"
    for each in result.checks:
        check = each.check
        yield f"  {check.of} against {check.against}, expected {check.expect}: {effect_text(each)}: {each.verdict_text}"
    yield f"{result.name}: {result.verdict.value} ({config.scale})"
