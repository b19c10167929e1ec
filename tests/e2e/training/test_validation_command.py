"""Validation by a command of the user: what it receives, what its number decides, and its failures."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from mtkit.errors import RecipeError
from mtkit.pipeline import stages
from mtkit.text.lines import read_lines
from mtkit.training.distributed import ProcessGroup
from mtkit.training.monitoring.validation import ValidationCommand, run_command
from tests.toy.runs import RecordingDisplay, sentences, toy, write_all

# counts its calls in calls.txt, whose n-th validation gets the n-th number; the first call is the trial
SCRIPT = """
import os, sys
from pathlib import Path
here = Path(sys.argv[1])
calls = here / "calls.txt"
count = int(calls.read_text()) if calls.exists() else 0
calls.write_text(str(count + 1))
lines = {name: Path(os.environ[name]).read_text().split("\\n")[:-1] for name in ("SRC", "HYP", "REF")}
assert len(lines["SRC"]) == len(lines["HYP"]) == len(lines["REF"]) == 4
(here / "src.txt").write_text("\\n".join(lines["SRC"]))
value = sys.argv[2 + count]
if value == "fail":
    sys.exit("no memory left")
print("a line before the number")
print(value)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all(tmp_path)
    (tmp_path / "score.py").write_text(SCRIPT)
    return tmp_path


def train(folder: Path, values: str, *overrides: str) -> tuple[stages.Report, RecordingDisplay]:
    command = f"{sys.executable} {folder / 'score.py'} {folder} {values}"
    validation = f"training.validation={{metric: command, sentences: 4, command: {json.dumps(command)}}}"
    display = RecordingDisplay()
    keys = (validation, "training.max_updates=8", *overrides)
    return stages.train(toy(folder, *keys), run_dir=folder / "run", display=display), display


def validations(folder: Path) -> list[dict[str, object]]:
    lines = [line.rpartition("\t")[0] or line for line in read_lines(folder / "run" / "log.jsonl")]
    return [record for record in map(json.loads, lines) if record["event"] == "validation"]


@pytest.mark.whole
@pytest.mark.parametrize(("goal", "best"), [("max", 6), ("min", 4)])
def test_its_number_decides_the_best_checkpoint(folder: Path, goal: str, best: int) -> None:
    report, _ = train(folder, "100 0.5 0.25 0.75 0.5", f"training.validation.command_goal={goal}")
    assert report.content["train"]["best_update"] == best
    assert [record["command"] for record in validations(folder)] == [0.5, 0.25, 0.75, 0.5]
    src = (folder / "src.txt").read_text().split("\n")
    assert set(src) <= set(sentences(6, 1))
    assert (folder / "calls.txt").read_text() == "5"


def test_its_number_decides_when_training_ends(folder: Path) -> None:
    report, _ = train(folder, "100 3 2 1 9", "training.patience=2")
    assert report.content["train"]["reason"] == "early_stopping"
    assert report.content["train"]["updates"] == 6
    assert report.content["train"]["best_update"] == 2


def test_after_a_failure_training_goes_on_and_nothing_counts(folder: Path) -> None:
    report, display = train(folder, "100 0.5 fail fail 0.25", "training.patience=2")
    assert report.content["train"]["updates"] == 8
    assert report.content["train"]["best_update"] == 2
    assert display.results["validation_command"].endswith(
        "ended with exit code 1: no memory left; this validation does not count for the best checkpoint and patience"
    )
    assert display.names.count("validation_command") == 2
    assert [record["is_best"] for record in validations(folder)] == [True, False, False, False]
    assert "command" not in validations(folder)[1]


def test_a_command_that_cannot_work_stops_before_the_first_update(folder: Path) -> None:
    with pytest.raises(RecipeError, match=r"training.validation.command: .* ended with exit code 1: no memory left;"):
        train(folder, "fail")
    assert not (folder / "run" / "checkpoints").exists()
    assert train(folder, "x 100 1 2 3 4")[0].content["train"]["best_update"] == 8


@pytest.mark.whole
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("exit 3", "'exit 3' ended with exit code 3"),
        ("echo sorry >&2; exit 1", "ended with exit code 1: sorry"),
        ("echo hello", "'echo hello' printed 'hello' and not a number as its last line"),
        ("true", "'true' printed '' and not a number as its last line"),
        ("echo nan", "'echo nan' printed nan, which is not finite"),
        ("no-such-program-here", "ended with exit code 127"),
        ("sleep 60", "'sleep 60' took longer than 1 seconds"),
    ],
)
def test_messages(command: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtkit.io.shell_command.TIMEOUT", 1)
    with pytest.raises(ValueError, match=message):
        run_command(command, {"HYP": ["a"]})
    heard: list[str] = []
    assert ValidationCommand(command, notify=heard.append)([], [], []) is None
    assert len(heard) == 1


@pytest.mark.whole
def test_what_a_command_has_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtkit.io.shell_command.TIMEOUT", 2)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    command = f"sleep 1000 > {tmp_path}/pipe & wait"
    with pytest.raises(ValueError, match="took longer than 2 seconds"):
        run_command(command, {"HYP": ["a"]})
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # which waits for the end of the last process that has the pipe open
    os.close(reader)


def test_the_first_rank_alone_runs_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessGroup, "broadcast", lambda self, numbers: [7.0])
    command = ValidationCommand(f"touch {tmp_path}/ran; echo 1", ranks=ProcessGroup(1, 2))
    command.check([], [])
    assert command(["a"], ["b"], ["c"]) == 7.0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "training.validation={metric: command}",
            "training.validation.metric: command needs the key command; set",
        ),
        (
            "training.validation={command: x, sentences: 0}",
            "training.validation.command: needs sentences to decode",
        ),
        ("training.validation.command=' '", "training.validation.command: ' ': must match"),
        ("corpus.valid=null", "training.validation.command: needs a validation set; set corpus.valid"),
    ],
)
def test_bad_recipes(folder: Path, override: str, message: str) -> None:
    keys = ("training.validation.command=x", override) if override.startswith("corpus") else (override,)
    with pytest.raises(RecipeError) as caught:
        toy(folder, *keys)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.whole
def test_another_command_resets_the_best_checkpoint(folder: Path) -> None:
    train(folder, "100 1 2 3 4")
    (folder / "calls.txt").unlink()
    _, display = train(folder, "100 9 9", "training.max_updates=12")
    assert display.results["metric_changed"].startswith("the validation set or metric changed")
