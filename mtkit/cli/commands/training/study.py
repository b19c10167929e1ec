"""`mtkit study`: compare variants of a recipe over several seeds."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.cli.options import AllowCommands, Format, Overrides, RunDir


def study(
    file: Annotated[str, typer.Argument(metavar="STUDY", help="YAML file, or the name of a built-in study.")],
    overrides: Overrides = None,
    run_dir: RunDir = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over and replace all existing runs.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the runs with parameters and estimated time; needs no corpus.")
    ] = False,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Only rebuild the table from the runs that have finished.")
    ] = False,
    parallel: Annotated[
        int,
        typer.Option(
            "--parallel", metavar="N", min=1, help="Number of simultaneous runs, which share the CPU threads."
        ),
    ] = 1,
    devices: Annotated[
        str | None,
        typer.Option("--devices", metavar="D,D", help="Run one training on each of these GPUs: cuda:0,cuda:1."),
    ] = None,
    form: Format = None,
    allow_commands: AllowCommands = False,
) -> None:
    """Train variants of a recipe and compare them.

    Each variant is trained from several seeds, each in a run folder, and all are compared in one table. After an
    interruption the same command resumes; finished runs are skipped.
    """
    from mtkit.hardware import limit_spinning

    limit_spinning()

    from mtkit.cli.display import open_display
    from mtkit.cli.printing import print_results
    from mtkit.errors import UsageError
    from mtkit.study.jobs import cpu_slots, gpu_slots
    from mtkit.study.load import read_study
    from mtkit.study.results import as_json, notes, study_table
    from mtkit.study.run import plan, report_study, run_study
    from mtkit.study.runs import runs_of, study_folder

    if fresh + dry_run + report_only > 1:
        raise UsageError("study: --fresh, --dry-run and --report-only are mutually exclusive")
    if devices is not None and parallel > 1:
        raise UsageError("study: --devices already sets the number of simultaneous runs; omit --parallel")
    study_config = read_study(file, overrides or [], allow_commands=allow_commands or dry_run or report_only)
    folder = study_folder(study_config, run_dir)
    slots = cpu_slots(parallel) if devices is None else gpu_slots(devices.split(","))
    if dry_run:
        table, lines = plan(study_config, runs_of(study_config, folder), num_slots=len(slots))
        print_results([table], form, notes=lines)
        return
    if report_only:
        outcome = report_study(study_config, folder)
    else:
        with open_display() as display:
            outcome = run_study(study_config, folder, slots, fresh=fresh, display=display)
    lines = [*notes(outcome.results), *map(str, outcome.files)]
    print_results([study_table(outcome.results)], form, notes=lines, content=as_json(outcome.results))
