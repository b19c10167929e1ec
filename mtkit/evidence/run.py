"""Test of a claim: its trainings, its measurements, its result."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtkit.bench.machine import inspect_machine
from mtkit.evidence.claim import CheckConfig, Claim
from mtkit.evidence.measure import Measurements
from mtkit.evidence.results import CheckResult, ClaimResult
from mtkit.io.lock import RunLock
from mtkit.study.jobs import DeviceSlot, prepare_runs, run_jobs
from mtkit.study.runs import StudyRun, log_events, runs_of
from mtkit.training.monitoring.log import Display

RUNS = Path("runs") / "evidence"  # of all claims, in the current directory; claims share the runs of a study


def study_folder(claim: Claim, run_dir: Path | None) -> Path:
    """Folder of the runs of a claim's study."""
    return (run_dir if run_dir is not None else RUNS).resolve() / claim.study.config.name


def train_models(claim: Claim, folder: Path, slots: Sequence[DeviceSlot], display: Display) -> None:
    """Train and score the unfinished runs of a claim; other claims of the same study use them too.

    Raises:
        MtkitError: a run cannot be prepared or ended with another error than a failed training.
    """
    runs = runs_of(claim.study, folder)
    with RunLock(folder):
        prepare_runs(runs, fresh=False, display=display)
        run_jobs([run for run in runs if not run.is_finished()], slots, display)


def measure_claim(claim: Claim, folder: Path) -> ClaimResult:
    """Compare the finished runs of a claim.

    Raises:
        DataError: a comparison has no finished runs, or a file is damaged.
    """
    measurements = Measurements(claim, folder)
    checks = [_check_result(measurements, check) for check in claim.config.checks]
    runs = measurements.runs
    return ClaimResult(
        name=claim.name,
        study=claim.config.study,
        systems=claim.config.systems,
        overrides=[each for each in claim.overrides if not each.startswith("corpus.root=")],
        date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        environment=_environment(runs),
        seconds=sum(_seconds(run) for run in runs),
        runs=len(runs),
        parameters={run.variant: _parameters(run) for run in runs},
        checks=checks,
    )


def _check_result(measurements: Measurements, check: CheckConfig) -> CheckResult:
    differences, effect = measurements.effect(check)
    sides = [measurements.values(system, check) for system in (check.of, check.against)]
    of, against = ({str(seed): side[seed] for seed in differences} for side in sides)
    return CheckResult(check, of, against, {str(seed): value for seed, value in differences.items()}, effect)


def _environment(runs: Sequence[StudyRun]) -> dict[str, Any]:
    """This machine; precision, threads and library of matrix products are those of the runs."""
    machine = inspect_machine(measure=False)
    reports = [run.folder.read_report() for run in runs]
    numerics = [report["train"].get("numerics", {}) for report in reports]
    return {
        "processor": machine.processor,
        "instructions": machine.instructions,
        "cores": machine.cores,
        "threads": sorted({threads for each in numerics for threads in each.get("threads", [])}),
        "matmul": sorted({each["matmul"] for each in numerics if "matmul" in each}),
        "mtkit": machine.versions["mtkit"],
        "python": machine.versions["python"],
        "torch": machine.versions["torch"],
        "training_precision": sorted({report["train"]["precision"] for report in reports}),
        "translation_precision": sorted(
            {report["test"][run.test].get("compute_type", "") for run, report in zip(runs, reports, strict=True)}
        ),
    }


def _seconds(run: StudyRun) -> float:
    report = run.folder.read_report()
    return float(report["train"].get("seconds", 0.0)) + float(report["test"][run.test].get("seconds", 0.0))


def _parameters(run: StudyRun) -> int:
    return next((int(event["parameters"]) for event in reversed(log_events(run)) if event["event"] == "begin"), 0)
