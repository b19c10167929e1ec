"""The runs of a study, each an `mtkit run` in a process of its own; as many at a time as there are places."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import environ
from pathlib import Path

import torch

from mtkit.errors import Interrupted, MtkitError, TrainingError, UsageError
from mtkit.hardware import find_device
from mtkit.io.files import reading, writing
from mtkit.study.runs import StudyRun
from mtkit.training.monitoring.log import Display
from mtkit.training.robustness.signals import Signals

SECONDS = 0.2  # between two looks at the processes


_ERROR = "mtkit: error: "  # how a command begins its last words


@dataclass(frozen=True)
class Child:
    """A run in its process."""

    run: StudyRun
    place: Place
    process: subprocess.Popen[bytes]

    @classmethod
    def begin(cls, run: StudyRun, place: Place, command: Sequence[str]) -> Child:
        """Start the process; what it says goes to output.txt in the run folder."""
        run.forget_failure()
        with writing(run.folder.path), cls.output(run).open("wb") as said:
            process = subprocess.Popen(command, env={**environ, **place.environment}, stdout=said, stderr=said)
        return cls(run, place, process)

    @staticmethod
    def output(run: StudyRun) -> Path:
        """The file with what it says."""
        return run.folder.path / "output.txt"

    def conclude(self) -> str:
        """What became of a process that has ended; a failed training is noted.

        Raises:
            MtkitError: it ended for another reason, with its exit code.
        """
        code = self.process.returncode
        if code == 0:
            return "done"
        reason = self._last_words()
        if code < 0 or code == TrainingError.exit_code:
            reason = reason or f"ended by signal {-code} (9: the memory was used up)"
            self.run.note_failure(reason)
            return f"failed: {reason}"
        failure = MtkitError(f"{self.run.label}: {reason or f'ended with code {code}; see {self.output(self.run)}'}")
        failure.exit_code = code
        raise failure

    def _last_words(self) -> str:
        path = self.output(self.run)
        with reading(path):
            said = path.read_text(encoding="utf-8", errors="replace")
        return said.rpartition(_ERROR)[2].strip() if _ERROR in said else ""


def mtkit_run(run: StudyRun) -> list[str]:
    """The command that trains and scores a run, whose recipe is in its folder, or goes on with it."""
    return [sys.executable, "-m", "mtkit", "run", str(run.folder.recipe), "--run-dir", str(run.folder.path)]


def execute(
    runs: Sequence[StudyRun],
    places: Sequence[Place],
    display: Display,
    *,
    command: Callable[[StudyRun], Sequence[str]] = mtkit_run,
) -> None:
    """Train and score every run; one whose training fails is noted and does not stop the others.

    A signal is passed on, and the processes save their states. So they do when one of them ends with an error that is
    none of its training.

    Args:
        runs: prepared, see prepare.py.
        places: where they compute.
        display: is shown what begins and ends.
        command: of a run.

    Raises:
        Interrupted: a signal came.
        MtkitError: one of the processes ended with an error other than TrainingError.
    """
    waiting, crew = list(runs), Crew(places, display, command)
    with Signals() as signals, closing(crew):
        while waiting or crew.children:
            crew.begin(waiting)
            time.sleep(SECONDS)
            if signals.received is not None:
                raise Interrupted(signals.received, "interrupted; the same command goes on from there")
            crew.conclude()


class Crew:
    """The runs that are under way, and the places that are free."""

    def __init__(self, places: Sequence[Place], display: Display, command: Callable[[StudyRun], Sequence[str]]) -> None:
        self.children: list[Child] = []
        self.free = list(places)
        self.display = display
        self.command = command

    def begin(self, waiting: list[StudyRun]) -> None:
        """Start as many of the waiting runs as there is place for; those are taken out of the list."""
        while self.free and (run := self._next(waiting)) is not None:
            waiting.remove(run)
            if not _may_begin(run):
                continue
            self.children.append(Child.begin(run, self.free.pop(), self.command(run)))
            self._say(f"{run.label}: begins, {len(waiting)} more to come; in {run.folder.path}")

    def _next(self, waiting: Sequence[StudyRun]) -> StudyRun | None:
        """The first run that waits for no other."""
        ahead = [id(run) for run in [*waiting, *(child.run for child in self.children)]]
        return next((run for run in waiting if id(run.source) not in ahead), None)

    def conclude(self) -> None:
        """See to those that have ended.

        Raises:
            MtkitError: as `execute`.
        """
        for child in [child for child in self.children if child.process.poll() is not None]:
            self.children.remove(child)
            self.free.append(child.place)
            self._say(f"{child.run.label}: {child.conclude()}")

    def close(self) -> None:
        """Ask all to end, and wait until they have saved their states."""
        for child in self.children:
            child.process.terminate()
        for child in self.children:
            child.process.wait()

    def _say(self, result: str) -> None:
        self.display.event("study", None, {"result": result})


def _may_begin(run: StudyRun) -> bool:
    """Whether there is the model to begin from; if not, that is noted as a failure."""
    if run.source is None or run.source.is_finished():
        return True
    run.note_failure(f"not begun: {run.source.label} has no model to begin from")
    return False


@dataclass(frozen=True)
class Place:
    """Room for one run: a share of the processor, or a GPU; `environment` confines a process to it."""

    name: str
    environment: Mapping[str, str]


def share_of_cpu(count: int) -> list[Place]:
    """So many places with equally many threads."""
    threads = max(1, torch.get_num_threads() // count)
    return [Place(f"{threads} threads", {"OMP_NUM_THREADS": str(threads)})] * count


def gpus(names: Sequence[str]) -> list[Place]:
    """A place on each GPU, such as cuda:0.

    Raises:
        UsageError: a name is not that of a GPU, or not of one that is here.
    """
    places = []
    for name in names:
        device = find_device(name)
        if device.type != "cuda":
            raise UsageError(f"device {name}: not a GPU such as cuda:0; --parallel N divides the processor")
        seen = _visible(torch.cuda.device_count())
        places.append(Place(name, {"CUDA_VISIBLE_DEVICES": seen[device.index or 0]}))
    return places


def _visible(count: int) -> list[str]:
    """What CUDA_VISIBLE_DEVICES must say for each of the GPUs that this process sees."""
    stated = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return stated.split(",") if stated else [str(number) for number in range(count)]
