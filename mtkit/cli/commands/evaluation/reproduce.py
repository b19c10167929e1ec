"""`mtkit reproduce`: test claims of the literature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import Format, Overrides, RunDir, complete_claim


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]", help="YAML file, or the name of a built-in claim.", autocompletion=complete_claim
        ),
    ] = "",
    overrides: Overrides = None,
    list_claims: Annotated[bool, typer.Option("--list", help="List all claims with verdict and cost.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Test all built-in claims, one after another.")] = False,
    study: Annotated[
        str, typer.Option("--study", metavar="STUDY", help="With --all: only the claims of this study.")
    ] = "",
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=1, help="Simultaneous trainings, which share the CPU threads.")
    ] = 1,
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
    form: Format = None,
) -> None:
    """Test a claim of the literature by a study.

    The models that the claim needs are trained from several seeds and compared; claims of the same study share them.
    The result is a verdict with effect and confidence interval, beside the stored one and with what both say together,
    and a line of a JSON Lines file with all numbers. After an interruption the same command resumes: a training whose
    record is in the folder of the results is not repeated.
    """
    from mtkit.cli.display import open_display
    from mtkit.cli.printing import print_data, print_lines, print_results
    from mtkit.errors import DataError, UsageError
    from mtkit.evidence.claim import claim_names, read_claim, read_config
    from mtkit.evidence.measure import RUNS, measure_claim, study_folder, train_models
    from mtkit.evidence.records import Records
    from mtkit.evidence.report import claims_table, evidence_markdown, result_lines
    from mtkit.evidence.results import read_result, results_folder
    from mtkit.study.jobs import cpu_slots

    if every and "=" in name:  # with --all the first argument is an override
        name, overrides = "", [name, *(overrides or [])]
    if bool(name) + list_claims + every + markdown != 1:
        raise UsageError("reproduce: give either NAME, --list, --all or --markdown")
    if (list_claims or markdown) and (overrides or run_dir is not None or measure_only):
        raise UsageError("reproduce: --list and --markdown only read results; of the other options they take -o alone")
    if study and not every:
        raise UsageError("reproduce: --study selects from all claims; add --all")
    if form is not None and not list_claims:
        raise UsageError("reproduce: --format is of the table of --list; give both")
    if list_claims:
        print_results([claims_table(output or results_folder())], form, folds=True)
        return
    if markdown:
        print_data(evidence_markdown(output or results_folder()).rstrip("\n").split("\n"))
        return
    folder = output or (run_dir or RUNS) / "results"
    records = Records(folder)
    names = [each for each in claim_names() if study in ("", read_config(each)[1].study)] if every else [name]
    if not names:
        raise UsageError(f"reproduce: no claim has the study {study}; mtkit reproduce --list lists all")
    failed: list[DataError] = []
    for each in names:
        claim = read_claim(each, overrides or [])
        stored = read_result(results_folder(), each, claim.config) if each in claim_names() else None
        runs = study_folder(claim, run_dir)
        if not measure_only:
            with open_display() as display:
                train_models(claim, runs, records, cpu_slots(jobs), display)
        try:
            result = measure_claim(claim, runs, records)
        except DataError as error:  # a training failed; the other claims do not need it
            failed.append(error)
            continue
        print_lines([*result_lines(claim.config, result, stored), str(result.write(folder))])
    if failed:
        raise DataError("\n".join(map(str, failed)))
