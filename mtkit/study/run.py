"""Execution of a whole study, from its runs to its report; finished runs are kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.errors import MissingInputError
from mtkit.io.lock import RunLock
from mtkit.study.jobs import DeviceSlot, prepare_runs, run_jobs
from mtkit.study.load import Study
from mtkit.study.rates import trials, with_chosen_rates
from mtkit.study.report import write_results
from mtkit.study.results import StudyResults, compare_runs
from mtkit.study.runs import RunState, StudyRun, run_result, runs_of
from mtkit.training.monitoring.log import Display


@dataclass(frozen=True)
class StudyReport:
    """Results of a study, and the files written with them."""

    results: StudyResults
    files: list[Path]


def run_study(study: Study, folder: Path, slots: Sequence[DeviceSlot], *, fresh: bool, display: Display) -> StudyReport:
    """Train and score every unfinished run, then compare all variants.

    Args:
        study: the study.
        folder: of the study, see study_folder.
        slots: resources, one run at a time on each.
        fresh: discard all runs first.
        display: receives the progress.

    Raises:
        MtkitError: the study cannot be run. A failed training is no error but part of the results.
    """

    def train(runs: Sequence[StudyRun]) -> None:
        prepare_runs(runs, fresh=fresh, display=display)
        run_jobs([run for run in runs if not run.is_finished()], slots, display)

    with RunLock(folder):
        tried = trials(study, folder)
        train(tried)
        paths = {run.folder.path for run in tried}
        chosen = with_chosen_rates(study, folder, _loss)
        train([run for run in runs_of(chosen, folder) if run.folder.path not in paths])
    return report_study(study, folder)


def _loss(run: StudyRun) -> float | None:
    """Loss of a trial of a learning rate on valid; infinite if it failed, None if it has not ended."""
    result = run_result(run)
    return result.metrics.get("loss", math.inf if result.state == RunState.failed else None)


def report_study(study: Study, folder: Path) -> StudyReport:
    """Compare the runs that are finished so far, and write the report.

    Raises:
        MissingInputError: no run has finished or failed, or a file of a run is missing.
        DataError: a file of a run is corrupted.
        ReadWriteError: the report cannot be written.
    """
    study = with_chosen_rates(study, folder, _loss)
    runs = runs_of(study, folder)
    results = compare_runs(study, runs)
    if all(row.count(RunState.unfinished) == len(row.results) for row in results.rows):
        raise MissingInputError(
            f"{folder}: none of the {len(runs)} runs of this study has finished with these settings; omit "
            "--report-only to train them, or name their folder with --run-dir"
        )
    return StudyReport(results, write_results(results, folder))
