"""Runs in processes: number at a time, order, exit codes, signals."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mtkit.errors import Interrupted, MtkitError, UsageError
from mtkit.study.jobs import DeviceSlot, cpu_slots, gpu_slots, mtkit_run, run_jobs
from mtkit.study.runs import StudyRun, runs_of
from tests.toy.studies import finish, toy_corpus, toy_study

SLOTS = [DeviceSlot("here", {"SLOT": "here"})]


class RecordingDisplay:
    """Display that stores the results."""

    def __init__(self) -> None:
        self.results: list[str] = []

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        self.results.append(fields["result"])


@pytest.fixture
def runs(tmp_path: Path) -> list[StudyRun]:
    toy_corpus(tmp_path)
    found = runs_of(toy_study(tmp_path), tmp_path / "runs")
    for run in found:
        run.folder.path.mkdir(parents=True)
    return found


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_runs_are_ordered_by_seed_in_separate_folders(runs: list[StudyRun], tmp_path: Path) -> None:
    folders = [str(run.folder.path.relative_to(tmp_path)) for run in runs]
    assert folders == ["runs/pre/seed-1", "runs/post/seed-1", "runs/pre/seed-2", "runs/post/seed-2"]
    assert [run.recipe.training.seed for run in runs] == [1, 1, 2, 2]
    assert [run.recipe.name for run in runs][:2] == ["norms-pre-1", "norms-post-1"]
    assert list(runs[0].recipe.corpus.test) == ["toy"]
    assert mtkit_run(runs[0])[1:] == [
        "-m",
        "mtkit",
        "run",
        "--allow-commands",
        str(tmp_path / "runs/pre/seed-1/recipe.yaml"),
        "--run-dir",
        str(tmp_path / "runs/pre/seed-1"),
    ]


def test_a_failed_training_is_recorded_and_stops_no_other_run(runs: list[StudyRun]) -> None:
    runs[2].note_failure("of an earlier time")
    failing = "import sys; print('mtkit: error: loss nan\\nlower it', file=sys.stderr); sys.exit(70)"
    killed, reason = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by signal 9 (9: out of memory)"
    codes = {0: failing, 1: killed, 2: "import os; print(os.environ['SLOT'])", 3: "pass"}
    display = RecordingDisplay()
    run_jobs(runs, SLOTS, display, command=lambda run: python(codes[runs.index(run)]))
    assert [run.failure() for run in runs] == ["loss nan\nlower it", reason, None, None]
    assert (runs[2].folder.path / "output.txt").read_text() == "here\n"
    assert [line.partition(": ")[2].partition(",")[0] for line in display.results] == [
        "started",
        "failed: loss nan\nlower it",
        "started",
        f"failed: {reason}",
        "started",
        "done",
        "started",
        "done",
    ]


def test_another_error_ends_the_study_with_its_code(runs: list[StudyRun]) -> None:
    wrong = "import sys; print('mtkit: error: bad data', file=sys.stderr); sys.exit(65)"
    waiting = "import time; time.sleep(60)"
    command = {True: python(wrong), False: python(waiting)}
    with pytest.raises(MtkitError, match="pre, seed 1: bad data") as caught:
        run_jobs(runs, SLOTS * 2, RecordingDisplay(), command=lambda run: command[run is runs[0]])
    assert caught.value.exit_code == 65
    assert not (runs[2].folder.path / "output.txt").exists()
    assert runs[1].failure() is None


def test_a_failed_training_without_a_message_is_named_by_its_exit_code(runs: list[StudyRun]) -> None:
    run_jobs(runs[:1], SLOTS, RecordingDisplay(), command=lambda run: python("import sys; sys.exit(70)"))
    assert runs[0].failure() == f"exit code 70; see {runs[0].folder.path / 'output.txt'}"


def test_one_run_at_a_time_on_each_slot(runs: list[StudyRun], tmp_path: Path) -> None:
    meet = tmp_path / "meet"
    meet.mkdir()
    # each process waits for a second one: alone it would never end
    code = (
        f"import os, time\nfolder = {str(meet)!r}\nopen(f'{{folder}}/{{os.getpid()}}', 'w').close()\n"
        "while len(os.listdir(folder)) < 2: time.sleep(0.01)"
    )
    display = RecordingDisplay()
    run_jobs(runs, SLOTS * 2, display, command=lambda run: python(code))
    kinds = ["started" if "started" in line else "done" for line in display.results]
    running = [kinds[: end + 1].count("started") - kinds[: end + 1].count("done") for end in range(len(kinds))]
    assert max(running) == 2


def test_a_run_waits_for_the_model_that_initialises_it(tmp_path: Path) -> None:
    toy_corpus(tmp_path)
    runs = runs_of(toy_study(tmp_path, "init_from_variant={pre: post}", "seeds=[1, 2]"), tmp_path / "runs")
    assert [run.label for run in runs] == ["post, seed 1", "pre, seed 1", "post, seed 2", "pre, seed 2"]
    assert runs[1].recipe.training.init_from == runs[0].folder.path
    for run in runs:
        run.folder.path.mkdir(parents=True)
    finish(runs[0], ["x"], bleu=1.0, loss=1.0)
    display = RecordingDisplay()
    run_jobs(runs[1:], SLOTS * 3, display, command=lambda run: python("import sys; sys.exit(70)"))
    assert display.results[0].startswith("pre, seed 1: started")
    assert runs[3].failure() == "not started: post, seed 2 has no model to initialise from"
    assert not any(line.startswith("pre, seed 2") for line in display.results)


def test_a_run_that_began_with_an_earlier_model_is_not_continued(tmp_path: Path) -> None:
    toy_corpus(tmp_path)
    source, run = runs_of(toy_study(tmp_path, "init_from_variant={pre: post}", "seeds=[1]"), tmp_path / "runs")
    finish(source, ["x"], bleu=1.0, loss=1.0)
    run.folder.path.mkdir(parents=True)
    run.note_required()
    finish(run, ["x"], bleu=1.0, loss=1.0)
    assert run.is_finished()
    finish(source, ["x"], bleu=1.0, loss=0.5)  # trained further: other weights
    assert not run.is_finished()
    run.note_required()  # no more: its training has begun
    run_jobs([run], SLOTS, RecordingDisplay(), command=lambda run: python("import sys; sys.exit(70)"))
    assert str(run.failure()).startswith("not started: it began with an earlier model of post, seed 1; delete ")


def test_a_student_waits_for_its_teacher(tmp_path: Path) -> None:
    toy_corpus(tmp_path)
    distilled = "variants.post.training.objective={kind: distillation, cosine: 0}"
    runs = runs_of(toy_study(tmp_path, distilled, "teacher_variant={post: pre}", "seeds=[1]"), tmp_path / "runs")
    assert [run.label for run in runs] == ["pre, seed 1", "post, seed 1"]
    assert runs[1].recipe.training.objective.teacher_model == runs[0].folder.path
    assert runs[1].recipe.training.init_from is None
    for run in runs:
        run.folder.path.mkdir(parents=True)
    display = RecordingDisplay()
    run_jobs(runs, SLOTS * 2, display, command=lambda run: python("import sys; sys.exit(70)"))
    assert [line for line in display.results if "started" in line] == [display.results[0]]
    assert runs[1].failure() == "not started: pre, seed 1 has no model to learn from"


def test_a_signal_terminates_the_processes(runs: list[StudyRun]) -> None:
    """The processes save their state and end; none keeps running."""
    folder = runs[0].folder.path
    saving = (
        "import pathlib, signal, sys, time\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
        "def end(number, frame):\n    (folder / 'saved').touch(); sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, end); (folder / 'ready').touch()\n"
        "time.sleep(60)"
    )

    def send() -> None:
        while not (folder / "ready").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    with pytest.raises(Interrupted) as caught:
        run_jobs(runs, SLOTS, RecordingDisplay(), command=lambda run: python(saving))
    thread.join()
    assert caught.value.exit_code == 130
    assert (folder / "saved").exists()
    assert runs[0].failure() is None


def test_device_slots() -> None:
    assert len(cpu_slots(3)) == 3
    assert cpu_slots(10_000)[0].environment == {"OMP_NUM_THREADS": "1"}
    with pytest.raises(UsageError, match="device cpu: not a GPU such as cuda:0; --parallel N divides the CPU"):
        gpu_slots(["cpu"])
    with pytest.raises(UsageError, match="device cuda:99: "):
        gpu_slots(["cuda:99"])
