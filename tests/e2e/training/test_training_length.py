"""Length and size of a training: epochs, a subset of the text, the device, and the message of a resumed one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.errors import MtkitError, RecipeError
from mtkit.hardware import default_device, has_gpu, on_device
from mtkit.pipeline import estimate, stages
from mtkit.pipeline.estimate import dry_run_report
from mtkit.text.lines import read_lines
from mtkit.training.monitoring.meter import CpuTimes
from tests.toy.runs import MODELS, RecordingDisplay, run, toy, write_all


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all(tmp_path)
    return tmp_path


def log(folder: Path, event: str) -> list[dict[str, object]]:
    lines = [line.rpartition("\t")[0] or line for line in read_lines(folder / "run" / "log.jsonl")]
    return [record for record in map(json.loads, lines) if record["event"] == event]


def weights(folder: Path) -> bytes:
    return (folder / "run" / "model" / "model.safetensors").read_bytes()


def test_epochs_end_a_training_after_each_pair_was_read_so_often(folder: Path) -> None:
    report, _ = run(folder, "training.max_updates=100", "training.max_epochs=2")
    train = report.content["train"]
    assert train["reason"] == "max_epochs"
    assert report.lines[0] == f"training ended after {train['updates']} updates (max_epochs)"
    (checkpoint,) = (folder / "run" / "checkpoints").glob(f"update-{train['updates']:08d}")
    position = json.loads((checkpoint / "state.json").read_text())["progress"]["position"]
    assert position == {"window": 2, "update": 0}
    assert log(folder, "begin")[0]["max_updates"] == train["updates"]
    assert log(folder, "validation")[-1]["update"] == train["updates"]


def test_fewer_updates_than_the_epochs_end_a_training(folder: Path) -> None:
    report, _ = run(folder, "training.max_epochs=50")
    assert report.content["train"]["updates"] == 4
    assert report.content["train"]["reason"] == "max_updates"


@pytest.mark.whole
def test_a_resumed_training_of_epochs_has_the_same_bits(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    keys = ("training.max_updates=100", "training.max_epochs=2", "training.schedule={kind: linear, warmup: 2}")
    run(folder, *keys)
    other = tmp_path_factory.mktemp("other")
    write_all(other)
    recipe = toy(other, *keys, "training.max_hours=1e-9")
    ends = []
    while not ends or "resume" in ends[-1].splitlines()[0]:
        ends.append(stages.train(recipe, run_dir=other / "run").lines[0])
    assert len(ends) > 2
    assert weights(other) == weights(folder)
    assert ends[0].startswith("not finished: 1 of ")
    with pytest.raises(RecipeError, match=r"training.max_epochs: 2.0, now 3.0"):
        run(other, keys[0], "training.max_epochs=3", keys[2], "training.max_hours=1e-9")


def test_more_epochs_continue_a_training_whose_schedule_has_no_end(folder: Path) -> None:
    first, _ = run(folder, "training.max_updates=100", "training.max_epochs=1")
    second, display = run(folder, "training.max_updates=100", "training.max_epochs=2")
    updates = first.content["train"]["updates"]
    assert display.results["resume"] == f"resuming from update {updates} (--fresh starts over)"
    assert second.content["train"]["updates"] > updates


def test_a_dry_run_estimates_the_updates_of_epochs(folder: Path) -> None:
    report = dry_run_report(toy(folder, "training.max_updates=1000", "training.max_epochs=3"))
    assert "updates (3 epochs) of 1 × 128 tokens" in report
    (folder / "train.en").unlink()
    assert "1,000 updates of 1 × 128 tokens" in dry_run_report(
        toy(folder, "training.max_updates=1000", "training.max_epochs=3")
    )


def test_a_limit_trains_tokenizer_and_model_on_a_subset(folder: Path) -> None:
    display = RecordingDisplay()
    recipe = toy(folder, "corpus.train.0.limit=12")
    stages.preprocess(recipe, run_dir=folder / "run", display=display)
    assert display.results["tokenizer"] == "112 tokens from 24 of 24 lines"
    assert display.results["train.0"].partition(";")[0] == "12 of 12 pairs kept"
    again = RecordingDisplay()
    stages.preprocess(recipe, run_dir=folder / "run", display=again)
    assert again.results["tokenizer"] == again.results["train.0"] == "unchanged, kept"
    stages.preprocess(toy(folder, "corpus.train.0.limit=24"), run_dir=folder / "run", display=display)
    assert display.results["train.0"].partition(";")[0] == "24 of 24 pairs kept"
    stages.train(recipe, run_dir=folder / "run")
    with pytest.raises(RecipeError, match=r"corpus.train.0.limit: 12, now null"):
        stages.train(toy(folder), run_dir=folder / "run")


def test_the_device_of_a_block() -> None:
    before = default_device()
    with on_device("cpu"):
        assert (default_device().type, has_gpu()) == ("cpu", False)
    assert default_device() == before


@pytest.mark.parametrize("command", ["train", "run"])
def test_training_on_a_device(
    folder: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    for device, reason in (("tpu", "not available; this machine has cpu"), ("cpu:3", "the CPU has no number; write")):
        assert entry.execute([command, "toy.yaml", "--device", device]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"mtkit: error: device {device}: {reason}")
        assert error.count("\n") == 1
    assert not (folder / "runs").exists()
    words = ["model={kind: rnn, d_model: 8, d_embed: 8, num_layers: 1}", "--run-dir", "run", "--device", "cpu"]
    assert entry.execute([command, "toy.yaml", *words]) == 0
    assert log(folder, "begin")[0]["device"] == "cpu"


def test_devices_that_a_training_cannot_use(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr("mtkit.hardware.parse_device", torch.device)
    with pytest.raises(MtkitError, match="device mps: training runs on cpu or cuda only"), on_device("mps"):
        pass
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(MtkitError, match="device cuda:1: torchrun gives each process its own GPU"), on_device("cuda:1"):
        pass


@pytest.mark.parametrize(("machine", "process", "is_busy"), [(9.0, 2.0, True), (9.0, 8.9, False)])
def test_a_dry_run_on_a_busy_machine_says_so(folder: Path, monkeypatch, machine, process, is_busy) -> None:
    times = iter([CpuTimes(0.0, 0.0, 0.0), CpuTimes(5.0, machine, process)])
    monkeypatch.setattr(estimate, "read_cpu_times", lambda: next(times))
    report = dry_run_report(toy(folder, "training.max_updates=1000"))
    assert ("(other processes used 1.4 of " in report) == is_busy
    assert bool(re.search(r"cores meanwhile; on free cores about \d+ (seconds|minutes)\)$", report)) == is_busy


@pytest.mark.parametrize("keys", [[], ["corpus.valid=null"]])
def test_a_dry_run_adds_validation_only_if_there_is_one(folder: Path, keys: list[str]) -> None:
    report = dry_run_report(toy(folder, *keys))
    assert (" updates of 1 × 128 tokens, plus validation\n" in report) == (not keys)
    assert (" updates of 1 × 128 tokens\n" in report) == bool(keys)


def test_resuming_is_the_default_and_can_be_stated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", str(folder / "toy.yaml"), "--run-dir", str(folder / "run"), f"model={MODELS['rnn']}"]
    for option in ([], ["--resume"]):
        assert entry.execute([*command, *option]) == 0
        assert ("already finished" in capsys.readouterr().out) == bool(option)
    assert entry.execute([*command, "--fresh"]) == 0
    assert "training ended after 4 updates" in capsys.readouterr().out
