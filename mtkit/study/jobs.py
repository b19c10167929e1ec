"""Training of a study: run folders with a shared corpus, then one `mtkit run` process for each run.

As many processes run at a time as there are device slots: shares of the CPU, or GPUs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import torch

from mtkit.display import count_of
from mtkit.errors import ComputeError, Interrupted, MtkitError, UsageError
from mtkit.hardware import parse_device
from mtkit.io.files import atomic_folder, translate_read_errors, translate_write_errors
from mtkit.io.lock import RunLock
from mtkit.pipeline.open_run import open_run
from mtkit.pipeline.prepare_corpus import check_inputs, prepare_corpus
from mtkit.pipeline.prepare_tokenizer import prepare_tokenizer
from mtkit.pipeline.run_folder import RunFolder, save_recipe
from mtkit.recipe.paths import to_plain
from mtkit.study.runs import StudyRun
from mtkit.training.monitoring.log import Display
from mtkit.training.pending_signal import PendingSignal

POLL_SECONDS = 0.2  # between two checks of the processes
_ERROR_PREFIX = "mtkit: error: "  # start of a command's error message


@dataclass(frozen=True)
class DeviceSlot:
    """Computing resources of one run: a share of the CPU, or a GPU; `environment` confines a process to them."""

    name: str
    environment: Mapping[str, str]


def cpu_slots(count: int) -> list[DeviceSlot]:
    """Divide the CPU threads of this process evenly over `count` slots."""
    threads = max(1, torch.get_num_threads() // count)
    return [DeviceSlot(count_of(threads, "thread"), {"OMP_NUM_THREADS": str(threads)})] * count


def gpu_slots(names: Sequence[str]) -> list[DeviceSlot]:
    """One slot on each named GPU, such as cuda:0.

    Raises:
        UsageError: a name is not that of a GPU, or the GPU does not exist.
    """
    slots = []
    present = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    for name in names:
        device = parse_device(name)
        if device.type != "cuda":
            raise UsageError(f"device {name}: not a GPU such as cuda:0; --parallel N divides the CPU")
        number = device.index or 0
        visible = present.split(",")[number] if present else str(number)
        slots.append(DeviceSlot(name, {"CUDA_VISIBLE_DEVICES": visible}))
    return slots


def prepare_runs(runs: Sequence[StudyRun], *, fresh: bool, display: Display) -> None:
    """Write recipe, tokenizer and binary corpus to the folder of every unfinished run.

    Runs with equal tokenizer and corpus settings share the files by hard links: each folder is complete, and the disk
    stores the data once. The files are never modified, only replaced. Each run verifies them before it trains.

    Args:
        fresh: discard finished and unfinished training of all runs.

    Raises:
        MissingInputError, DataError: the text of a corpus is missing or invalid.
        RecipeError: a folder holds a training that began with another recipe.
        BusyError: another process has locked a folder.
        ReadWriteError: a folder cannot be written.
    """
    originals: dict[str, RunFolder] = {}
    for run in runs:
        corpus, tokenizer = to_plain(run.recipe.corpus), to_plain(run.recipe.tokenizer)
        del corpus["root"], corpus["test"], tokenizer["subword_regularization"], tokenizer["robustness"]
        key = json.dumps([corpus, tokenizer])  # equal for recipes with the same tokenizer and binary corpus
        if fresh or not run.is_finished():
            _prepare_run(run, originals.get(key), fresh=fresh, display=display)
        # the lexicon is the last file that preparation writes
        if run.source is None and run.folder.lexicon.is_file():
            originals.setdefault(key, run.folder)


def _prepare_run(run: StudyRun, original: RunFolder | None, *, fresh: bool, display: Display) -> None:
    if original is None:
        check_inputs(run.recipe)
    if run.source is not None and not run.source.is_finished():
        # the run cannot be opened without the model that initialises it: only its recipe is written
        with RunLock(run.folder.path):
            if fresh:
                run.folder.delete_training()
            if not run.folder.has_training():
                save_recipe(run.recipe, run.folder.recipe)
        return
    with open_run(run.recipe, run.folder.path, fresh=fresh, display=display) as opened:
        folder = opened.folder
        if run.source is not None:
            return  # its process prepares the corpus with the tokenizer of the model that initialises it
        if original is None:
            prepare_corpus(opened, prepare_tokenizer(opened))
        elif not folder.tokenizer.is_dir():
            _link_folder(original.tokenizer, folder.tokenizer)
            _link_folder(original.corpus, folder.corpus)


def _link_folder(original: Path, link: Path) -> None:
    if original.is_dir():
        with atomic_folder(link) as temporary:
            shutil.copytree(original, temporary, copy_function=_link_file, dirs_exist_ok=True)


def _link_file(original: str, link: str) -> None:
    try:
        os.link(original, link)
    except OSError:  # the file system has no hard links
        shutil.copy2(original, link)


@dataclass(frozen=True)
class Job:
    """A run in its own process."""

    run: StudyRun
    slot: DeviceSlot
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, run: StudyRun, slot: DeviceSlot, command: Sequence[str]) -> Job:
        """Start the process; its stdout and stderr go to output.txt in the run folder."""
        run.clear_failure()
        run.note_required()
        with translate_write_errors(run.folder.path), cls.output(run).open("wb") as output:
            environment = {**os.environ, **slot.environment}
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        return cls(run, slot, process)

    @staticmethod
    def output(run: StudyRun) -> Path:
        """File of the process's output."""
        return run.folder.path / "output.txt"

    def finish(self) -> str:
        """Outcome of a process that has ended; a failed training is recorded in the run folder.

        Raises:
            MtkitError: the process ended with an error other than a failed training; it has the same exit code.
        """
        code = self.process.returncode
        if code == 0:
            return "done"
        path = self.output(self.run)
        with translate_read_errors(path):
            output = path.read_text(encoding="utf-8", errors="replace")
        reason = output.rpartition(_ERROR_PREFIX)[2].strip() if _ERROR_PREFIX in output else ""
        if code < 0 or code == ComputeError.exit_code:
            killed = f"killed by signal {-code} (9: out of memory)"
            reason = reason or (killed if code < 0 else f"exit code {code}; see {path}")
            self.run.note_failure(reason)
            return f"failed: {reason}"
        error = MtkitError(f"{self.run.label}: {reason or f'exit code {code}; see {path}'}")
        error.exit_code = code
        raise error


def mtkit_run(run: StudyRun) -> list[str]:
    """Command that trains and scores a run from the recipe in its folder, or resumes it."""
    # commands were refused or allowed when the study was read
    words = ["run", "--allow-commands", str(run.folder.recipe), "--run-dir", str(run.folder.path)]
    return [sys.executable, "-m", "mtkit", *words]


def run_jobs(
    runs: Sequence[StudyRun],
    slots: Sequence[DeviceSlot],
    display: Display,
    *,
    command: Callable[[StudyRun], Sequence[str]] = mtkit_run,
    finished: Callable[[StudyRun], object] = lambda run: None,
) -> None:
    """Train and score every run; a run whose training fails is recorded and does not stop the others.

    After a signal, or when a process ends with another error, all processes are terminated and save their state.

    Args:
        runs: prepared by `prepare_runs`.
        slots: resources, one run at a time on each.
        display: receives the start and the end of each run.
        finished: called when a run has been trained and scored.

    Raises:
        Interrupted: a signal was received.
        MtkitError: a process ended with an error other than a failed training.
    """
    waiting, pool = list(runs), JobPool(slots, display, command)
    with PendingSignal() as signals, closing(pool):
        while waiting or pool.jobs:
            pool.start_ready(waiting)
            time.sleep(POLL_SECONDS)
            if signals.received is not None:
                raise Interrupted(signals.received, "interrupted; the same command resumes")
            for run in pool.collect_finished():
                finished(run)


class JobPool:
    """Running processes and free device slots."""

    def __init__(
        self, slots: Sequence[DeviceSlot], display: Display, command: Callable[[StudyRun], Sequence[str]]
    ) -> None:
        self.jobs: list[Job] = []
        self.free_slots = list(slots)
        self.display = display
        self.command = command

    def start_ready(self, waiting: list[StudyRun]) -> None:
        """Start runs whose source and teacher have ended while there are free slots; remove them from `waiting`."""
        while self.free_slots:
            unfinished = {id(run) for run in [*waiting, *(job.run for job in self.jobs)]}
            run = next((each for each in waiting if unfinished.isdisjoint(map(id, each.required))), None)
            if run is None:
                return
            waiting.remove(run)
            if _check_required(run):
                self.jobs.append(Job.start(run, self.free_slots.pop(), self.command(run)))
                self._notify(f"{run.label}: started, {len(waiting)} waiting; in {run.folder.path}")

    def collect_finished(self) -> list[StudyRun]:
        """Remove jobs whose process has ended, and free their slots; returns the runs that succeeded.

        Raises:
            MtkitError: a process ended with an error other than a failed training.
        """
        ended = [job for job in self.jobs if job.process.poll() is not None]
        for job in ended:
            self.jobs.remove(job)
            self.free_slots.append(job.slot)
            self._notify(f"{job.run.label}: {job.finish()}")
        return [job.run for job in ended if job.process.returncode == 0]

    def close(self) -> None:
        """Terminate all processes, and wait until they have saved their state."""
        for job in self.jobs:
            job.process.terminate()
        for job in self.jobs:
            job.process.wait()

    def _notify(self, result: str) -> None:
        self.display.event("study", None, {"result": result})


def _check_required(run: StudyRun) -> bool:
    """Return whether a run can train from the models that it needs; if not, it is recorded as failed."""
    missing = [each.label for each in run.required if not each.is_finished()]
    outdated = run.outdated()
    if missing:
        purpose = "initialise from" if run.source is not None else "learn from"
        run.note_failure(f"not started: {', '.join(missing)} has no model to {purpose}")
    elif outdated:
        run.note_failure(
            f"not started: it began with an earlier model of {', '.join(outdated)}; delete {run.folder.path} to train "
            "it again"
        )
    return not missing and not outdated
