"""A study from its runs to its table; whatever is there already is not done again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.io.lock import RunLock
from mtkit.study.jobs import Place, execute
from mtkit.study.load import Study
from mtkit.study.prepare import prepare
from mtkit.study.report import write_results
from mtkit.study.results import Results, collect
from mtkit.study.runs import runs_of
from mtkit.training.monitoring.log import Display


@dataclass(frozen=True)
class Report:
    """What a study leaves: its results, and the files with them."""

    results: Results
    files: list[Path]


def carry_out(study: Study, folder: Path, places: Sequence[Place], *, fresh: bool, display: Display) -> Report:
    """Train and score every run that is not finished, then compare them all.

    Args:
        study: what is compared.
        folder: of the study, see study_folder.
        places: where runs compute, one run in each at a time.
        fresh: forget all runs first.
        display: is shown what happens.

    Raises:
        MtkitError: of a study that cannot be carried out; a training that fails is part of the result.
    """
    runs = runs_of(study, folder)
    with RunLock(folder):
        prepare(runs, fresh=fresh, display=display)
        execute([run for run in runs if not run.is_finished()], places, display)
    return report(study, folder)


def report(study: Study, folder: Path) -> Report:
    """Compare what there is so far.

    Raises:
        DataError, MissingInputError: a file of a run is damaged or missing.
        ReadWriteError: the results cannot be written.
    """
    results = collect(study, runs_of(study, folder))
    return Report(results, write_results(results, folder))
