"""`mtkit study`: several variants of a recipe, each from several seeds, compared in one table."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.cli.options import Overrides, RunDir


def study(
    file: Annotated[str, typer.Argument(metavar="STUDY", help="A YAML file, or the name of a shipped study.")],
    overrides: Overrides = None,
    run_dir: RunDir = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start all runs over; finished and begun ones go.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the runs with parameters and expected time; needs no corpus.")
    ] = False,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Only make the table anew, of what is there so far.")
    ] = False,
    parallel: Annotated[
        int, typer.Option("--parallel", metavar="N", min=1, help="Runs at a time; they share the threads.")
    ] = 1,
    devices: Annotated[
        str | None, typer.Option("--devices", metavar="D,D", help="A run at a time on each GPU: cuda:0,cuda:1.")
    ] = None,
) -> None:
    """Train variants of a recipe from several seeds, each a run folder, and compare them in one table.

    The same command goes on where it was interrupted; what is finished is skipped.
    """
    from mtkit.cli.display import display
    from mtkit.cli.printing import print_lines, print_table
    from mtkit.errors import UsageError
    from mtkit.study.jobs import gpus, share_of_cpu
    from mtkit.study.load import read_study
    from mtkit.study.plan import plan
    from mtkit.study.run import carry_out, report
    from mtkit.study.runs import runs_of, study_folder
    from mtkit.study.table import notes, study_table

    if fresh + dry_run + report_only > 1:
        raise UsageError("study: --fresh, --dry-run and --report-only exclude each other")
    if devices is not None and parallel > 1:
        raise UsageError("study: --devices says how many runs go at a time; leave out --parallel")
    checked = read_study(file, overrides or [])
    folder = study_folder(checked, run_dir)
    places = share_of_cpu(parallel) if devices is None else gpus(devices.split(","))
    if dry_run:
        table, lines = plan(checked, runs_of(checked, folder), at_a_time=len(places))
        print_table(table)
        print_lines(lines)
        return
    if report_only:
        made = report(checked, folder)
    else:
        with display() as shown:
            made = carry_out(checked, folder, places, fresh=fresh, display=shown)
    print_table(study_table(made.results))
    print_lines([*notes(made.results), *map(str, made.files)])
