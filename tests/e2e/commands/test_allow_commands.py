"""A file cannot run a shell command without permission, wherever it states it; the command line needs none."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import random
import socket
from pathlib import Path

import pytest

import mtkit
from mtkit.cli import entry
from mtkit.errors import RecipeError
from mtkit.pipeline import stages
from mtkit.recipe.recipe import read_recipe
from mtkit.study.load import read_study
from tests.toy.runs import MODELS, RecordingDisplay, write_all
from tests.toy.sampling import sampled
from tests.toy.studies import STUDY

COMMAND = "touch ran; echo 1"
KEY = "training.validation.command"
WAYS = [  # of writing the key; {} is the command in quotes
    "training: {{validation: {{command: {}}}}}",
    "training:\n  validation:\n    command: {}",
    "training.validation: {{command: {}}}",
    "training.validation.command: {}",
    "training: {{validation.command: {}}}",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_all(tmp_path)
    text = (tmp_path / "toy.yaml").read_text()
    (tmp_path / "toy.yaml").write_text(text + f"model: {MODELS['transformer']}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.whole
def test_every_way_to_state_it_is_refused(folder: Path) -> None:
    """In the recipe or a base of it, as any kind of scalar; an override of the command line replaces it."""
    rng, random_commands = random.Random(1), ["true", COMMAND, "0", "no", "a: b", "é\u202e\x1b[31m"]
    for way, depth in itertools.product(WAYS, range(1, 5)):
        for _ in range(sampled(10, least=2)):
            command = rng.choice(random_commands)
            (folder / "b0.yaml").write_text("base: toy.yaml\n" + way.format(json.dumps(command)) + "\n")
            for number in range(1, depth):
                (folder / f"b{number}.yaml").write_text(f"base: b{number - 1}.yaml\nsearch: {{beam_size: 3}}\n")
            path = f"b{depth - 1}.yaml"
            with pytest.raises(RecipeError, match=r"b0.yaml:\d: training.validation.command: runs the shell command"):
                read_recipe(path)
            with pytest.raises(RecipeError, match="allow it with --allow-commands"):
                mtkit.load_recipe(path)
            for override in (f"{KEY}=null", f"{KEY}=mine", "training.validation={command: mine}"):
                read_recipe(path, [override])
    assert mtkit.load_recipe(path, allow_commands=True).training.validation.command == command


@pytest.mark.whole
@pytest.mark.parametrize("command", ["run", "train"])
def test_a_file_needs_the_option(folder: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "x.yaml").write_text(f"base: toy.yaml\n{KEY}: {COMMAND}\n")
    assert entry.execute([command, "x.yaml"]) == 78
    assert f"x.yaml:2: {KEY}: runs the shell command '{COMMAND}'; allow it with --allow-commands" in (
        capsys.readouterr().err
    )
    assert entry.execute([command, "x.yaml", "--dry-run"]) == 0
    assert not (folder / "ran").exists()
    assert not (folder / "runs").exists()
    assert entry.execute([command, "x.yaml", "--allow-commands"]) == 0
    assert (folder / "ran").exists()


def test_the_command_line_needs_no_option_and_the_command_is_said_first(folder: Path) -> None:
    display = RecordingDisplay()
    stages.train(mtkit.load_recipe("toy.yaml", [f"{KEY}={COMMAND}"]), run_dir=folder / "run", display=display)
    assert display.results["command"] == f"the shell command '{COMMAND}' runs now and at every validation"
    assert (folder / "ran").exists()


@pytest.mark.parametrize("place", ["base", "common", "variant", "grid"])
def test_studies(folder: Path, place: str) -> None:
    text = STUDY.replace("post: {model: {residual: {kind: post_norm}}}", "post: {model: {dropout: 0.2}}")
    if place == "base":
        (folder / "x.yaml").write_text(f"base: toy.yaml\n{KEY}: {COMMAND}\n")
        text = text.replace("toy.yaml", "x.yaml")
    elif place == "variant":
        text = text.replace("pre: {}", f"pre: {{{KEY}: {COMMAND}}}")
    else:
        text += {"common": f"common: {{{KEY}: {COMMAND}}}\n", "grid": f"grid: {{{KEY}: [{COMMAND}]}}\n"}[place]
    (folder / "study.yaml").write_text(text)
    with pytest.raises(RecipeError, match=f"{KEY}: runs the shell command '{COMMAND}'"):
        read_study("study.yaml")
    assert read_study("study.yaml", allow_commands=True).recipes
    if place in ("base", "common"):
        assert read_study("study.yaml", [f"{KEY}=mine"]).recipes


def test_nothing_is_sent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training with every tracker that is installed opens no connection, and MLflow's own telemetry is off."""

    real = socket.socket.connect

    def local(sock: socket.socket, address: object) -> None:
        """Connect to a helper process of a tracker on this machine, and to nothing else."""
        if sock.family != socket.AF_UNIX and str(address[0]) not in ("127.0.0.1", "::1", "localhost"):  # type: ignore[index]
            tried.append(address)
            raise OSError("no network")
        real(sock, address)  # type: ignore[arg-type]

    tried: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", local)
    monkeypatch.delenv("MLFLOW_DISABLE_TELEMETRY", raising=False)
    installed = [name for name in ("tensorboard", "wandb", "mlflow") if importlib.util.find_spec(name)]
    recipe = mtkit.load_recipe("toy.yaml", [f"training.{name}=true" for name in installed])
    stages.train(recipe, run_dir=folder / "run")
    assert tried == []
    if "mlflow" in installed:
        assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
