"""`mtkit report`: what runs were trained on, their curves, scores and differences, in one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.commands.evaluation.evaluate import metric_names
from mtkit.cli.options import Format, HtmlFile, JsonFile, forbid_repeated
from mtkit.evaluation.config import METRIC_NAMES


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Run folders; the others are compared with the first.")
    ],
    html: HtmlFile = None,
    form: Format = None,
    json: JsonFile = None,
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="LIST", help=f"{', '.join(METRIC_NAMES)}, with commas.")
    ] = "bleu,chrf",
) -> None:
    """Report training, scores and tests of runs in one page.

    The page of --html also has the learning curves, the best and worst lines, data and recipe. Runs that differ in
    nothing but the seed share a curve. A run that is still training is reported as far as it has come.
    """
    from mtkit.cli.printing import print_results
    from mtkit.evaluation.comparison import signature_lines
    from mtkit.io.files import write_text
    from mtkit.pipeline.run_report import report_runs

    forbid_repeated("report", runs)
    result = report_runs(runs, metric_names("report", metrics))
    notes = [line for test in result.tests for each in test.reasons for line in (f"{test.name}:", *each.summary(), "")]
    signatures = (
        line for test in result.tests for line in (*signature_lines(test.comparison.scores), *test.comparison.tests)
    )
    print_results(
        result.tables(), form, notes=["", *notes, *dict.fromkeys(signatures)], content=result.as_dict(), json_file=json
    )
    if html is not None:
        write_text(html, result.html())
