"""Runs in processes: how many at a time, what follows what, and what an exit code means."""

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
from mtkit.study.jobs import Place, execute, gpus, mtkit_run, share_of_cpu
from mtkit.study.runs import StudyRun, runs_of
from tests.unit.study.made_up import finish, toy_corpus, toy_study

PLACES = [Place("here", {"PLACE": "here"})]


class Heard:
    """A display that remembers."""

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


def test_seeds_come_one_after_the_other_in_folders_of_their_own(runs: list[StudyRun], tmp_path: Path) -> None:
    folders = [str(run.folder.path.relative_to(tmp_path)) for run in runs]
    assert folders == ["runs/pre/seed-1", "runs/post/seed-1", "runs/pre/seed-2", "runs/post/seed-2"]
    assert [run.recipe.training.seed for run in runs] == [1, 1, 2, 2]
    assert [run.recipe.name for run in runs][:2] == ["norms-pre-1", "norms-post-1"]
    assert list(runs[0].recipe.corpus.test) == ["toy"]
    assert mtkit_run(runs[0])[1:] == [
        "-m",
        "mtkit",
        "run",
        str(tmp_path / "runs/pre/seed-1/recipe.yaml"),
        "--run-dir",
        str(tmp_path / "runs/pre/seed-1"),
    ]


def test_a_failed_training_is_noted_and_stops_nobody(runs: list[StudyRun]) -> None:
    runs[2].note_failure("of an earlier time")
    failing = "import sys; print('mtkit: error: loss nan\\nlower it', file=sys.stderr); sys.exit(70)"
    killed, said = (
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "ended by signal 9 (9: the memory was used up)",
    )
    codes = {0: failing, 1: killed, 2: "import os; print(os.environ['PLACE'])", 3: "pass"}
    heard = Heard()
    execute(runs, PLACES, heard, command=lambda run: python(codes[runs.index(run)]))
    assert [run.failure() for run in runs] == ["loss nan\nlower it", said, None, None]
    assert (runs[2].folder.path / "output.txt").read_text() == "here\n"
    assert [line.partition(": ")[2].partition(",")[0] for line in heard.results] == [
        "begins",
        "failed: loss nan\nlower it",
        "begins",
        f"failed: {said}",
        "begins",
        "done",
        "begins",
        "done",
    ]


def test_another_error_ends_the_study_with_its_code(runs: list[StudyRun]) -> None:
    wrong = "import sys; print('mtkit: error: bad data', file=sys.stderr); sys.exit(65)"
    waiting = "import time; time.sleep(60)"
    with pytest.raises(MtkitError, match="pre, seed 1: bad data") as caught:
        execute(runs, PLACES * 2, Heard(), command=lambda run: python(wrong if run is runs[0] else waiting))
    assert caught.value.exit_code == 65
    assert not (runs[2].folder.path / "output.txt").exists()
    assert runs[1].failure() is None


def test_as_many_at_a_time_as_there_are_places(runs: list[StudyRun], tmp_path: Path) -> None:
    meet = tmp_path / "meet"
    meet.mkdir()
    # each waits until two are there: alone it would never end
    code = (
        f"import os, time\nfolder = {str(meet)!r}\nopen(f'{{folder}}/{{os.getpid()}}', 'w').close()\n"
        "while len(os.listdir(folder)) < 2: time.sleep(0.01)"
    )
    heard = Heard()
    execute(runs, PLACES * 2, heard, command=lambda run: python(code))
    kinds = ["begins" if "begins" in line else "done" for line in heard.results]
    running = [kinds[: end + 1].count("begins") - kinds[: end + 1].count("done") for end in range(len(kinds))]
    assert max(running) == 2


def test_a_run_waits_for_the_model_that_it_begins_from(tmp_path: Path) -> None:
    toy_corpus(tmp_path)
    runs = runs_of(toy_study(tmp_path, "begin_from={pre: post}", "seeds=[1, 2]"), tmp_path / "runs")
    assert [run.label for run in runs] == ["post, seed 1", "pre, seed 1", "post, seed 2", "pre, seed 2"]
    assert runs[1].recipe.training.init_from == runs[0].folder.path
    for run in runs:
        run.folder.path.mkdir(parents=True)
    finish(runs[0], ["x"], bleu=1.0, loss=1.0)
    heard = Heard()
    execute(runs[1:], PLACES * 3, heard, command=lambda run: python("import sys; sys.exit(70)"))
    assert heard.results[0].startswith("pre, seed 1: begins")
    assert runs[3].failure() == "not begun: post, seed 2 has no model to begin from"
    assert not any(line.startswith("pre, seed 2") for line in heard.results)


def test_a_signal_is_passed_on(runs: list[StudyRun]) -> None:
    """The processes save their state and end; nothing is left running."""
    folder = runs[0].folder.path
    saving = (
        "import pathlib, signal, sys, time\n"
        f"place = pathlib.Path({str(folder)!r})\n"
        "def end(number, frame):\n    (place / 'saved').touch(); sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, end); (place / 'ready').touch()\n"
        "time.sleep(60)"
    )

    def send() -> None:
        while not (folder / "ready").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    with pytest.raises(Interrupted) as caught:
        execute(runs, PLACES, Heard(), command=lambda run: python(saving))
    thread.join()
    assert caught.value.exit_code == 130
    assert (folder / "saved").exists()
    assert runs[0].failure() is None


def test_places() -> None:
    assert len(share_of_cpu(3)) == 3
    assert share_of_cpu(10_000)[0].environment == {"OMP_NUM_THREADS": "1"}
    with pytest.raises(UsageError, match="device cpu: not a GPU such as cuda:0; --parallel N divides the processor"):
        gpus(["cpu"])
    with pytest.raises(UsageError, match="device cuda:99: "):
        gpus(["cuda:99"])
