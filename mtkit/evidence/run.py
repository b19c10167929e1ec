"""Test of a claim: its trainings, their records, its result."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mtkit.evidence.claim import Claim
from mtkit.evidence.measure import Measurements
from mtkit.evidence.records import Records
from mtkit.evidence.results import ClaimResult
from mtkit.io.lock import RunLock
from mtkit.study.jobs import DeviceSlot, prepare_runs, run_jobs
from mtkit.study.rates import trials
from mtkit.study.runs import StudyRun
from mtkit.training.monitoring.log import Display

RUNS = Path("runs") / "evidence"  # of all claims, in the current directory; claims share the runs of a study


def study_folder(claim: Claim, run_dir: Path | None) -> Path:
    """Folder of the runs of a claim's study."""
    return (run_dir if run_dir is not None else RUNS).resolve() / claim.study.config.name


def train_models(claim: Claim, folder: Path, records: Records, slots: Sequence[DeviceSlot], display: Display) -> None:
    """Train and score the models of a claim that have no record; other claims of the same study use them too.

    First the trials of learning rates, then the seeds of each variant with its rate. A record is written as soon as a
    training ends. A trial that failed is not repeated: its learning rate is too high.

    Raises:
        MtkitError: a run cannot be prepared or ended with another error than a failed training.
    """

    def train(runs: Sequence[StudyRun], is_wanted: Callable[[StudyRun], bool]) -> None:
        wanted = [run for run in runs if not run.is_finished() and is_wanted(run)]
        required = [each for run in wanted for each in run.required if not each.is_finished()]
        todo = _unique([*required, *wanted])
        prepare_runs(todo, fresh=False, display=display)
        run_jobs(todo, slots, display, finished=records.of)

    with RunLock(folder):
        tried = trials(claim.study, folder)
        train(tried, lambda run: run.variant in claim.study.config.learning_rates and records.loss(run) is None)
        measurements = Measurements(claim, folder, records)
        train(measurements.all_runs, lambda run: not measurements.is_measured(run))


def _unique(runs: Iterable[StudyRun]) -> list[StudyRun]:
    return list({run.folder.path: run for run in runs}.values())


def measure_claim(claim: Claim, folder: Path, records: Records) -> ClaimResult:
    """Compare the finished runs of a claim.

    Raises:
        DataError: a comparison has no finished runs, or a file is damaged.
    """
    measurements = Measurements(claim, folder, records)
    checks = [measurements.measure(check) for check in claim.config.checks]
    runs = [run for name in claim.config.system_names() for run in measurements.runs_of_system(name)]
    found = {run.folder.path: records.of(run) for run in runs}
    return ClaimResult(
        name=claim.name,
        study=claim.config.study,
        systems={name: asdict(each) for name, each in claim.config.systems.items()},
        overrides=[each for each in claim.overrides if not each.startswith("corpus.root=")],
        date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        environment=_merged([record.environment for record in found.values()]),
        seconds=sum(record.values.get("train_seconds", 0.0) for record in found.values()),
        runs=len(found),
        parameters={run.variant: int(found[run.folder.path].values["parameters"]) for run in runs},
        checks=checks,
    )


def _merged(environments: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Environment of several trainings: a list of values where they differ."""
    first, *_ = environments
    values = {key: [each[key] for each in environments] for key in first}
    distinct = {
        key: [each for n, each in enumerate(of_key) if each not in of_key[:n]] for key, of_key in values.items()
    }
    return {key: each[0] if len(each) == 1 else each for key, each in distinct.items()}
