"""`mtkit reproduce`: test claims of the literature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import Overrides, RunDir


def reproduce(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="YAML file, or the name of a built-in claim.")] = "",
    overrides: Overrides = None,
    list_claims: Annotated[bool, typer.Option("--list", help="List all claims with verdict and cost.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Test all built-in claims, one after another.")] = False,
    run_dir: RunDir = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FOLDER", help="Folder of the results; default: RUN_DIR/results."),
    ] = None,
    measure_only: Annotated[
        bool, typer.Option("--measure-only", help="Train nothing; compare the runs that have finished.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print all claims and stored results as Markdown.")
    ] = False,
) -> None:
    """Test a claim of the literature by a short study.

    The models that the claim needs are trained from several seeds and compared; claims of the same study share them.
    The result is a verdict with effect and confidence interval, and a JSON file with all numbers.
    """
    from mtkit.cli.display import open_display
    from mtkit.cli.printing import print_lines, print_table
    from mtkit.errors import UsageError
    from mtkit.evidence.claim import claim_names, read_claim
    from mtkit.evidence.report import evidence_markdown
    from mtkit.evidence.results import results_folder
    from mtkit.evidence.run import RUNS, measure_claim, study_folder, train_models
    from mtkit.evidence.table import claims_table, result_lines
    from mtkit.study.jobs import cpu_slots

    if bool(name) + list_claims + every + markdown != 1:
        raise UsageError("reproduce: give either NAME, --list, --all or --markdown")
    if (list_claims or markdown) and (overrides or run_dir is not None or measure_only):
        raise UsageError("reproduce: --list and --markdown only read results; of the other options they take -o alone")
    if list_claims:
        print_table(claims_table(output or results_folder()))
        return
    if markdown:
        print_lines(evidence_markdown(output or results_folder()).rstrip("\n").split("\n"))
        return
    folder = output or (run_dir or RUNS) / "results"
    for each in claim_names() if every else [name]:
        claim = read_claim(each, overrides or [])
        runs = study_folder(claim, run_dir)
        if not measure_only:
            with open_display() as display:
                train_models(claim, runs, cpu_slots(1), display)
        result = measure_claim(claim, runs)
        print_lines([*result_lines(claim.config, result), str(result.write(folder))])
