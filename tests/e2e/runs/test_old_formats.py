"""Run folders and models written by an earlier version: refused in one sentence, and nothing is changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mtkit import __version__
from mtkit.cli import entry
from mtkit.io.records import read_record, write_record, write_text_record
from mtkit.model_folder.config_file import WEIGHTS
from mtkit.pipeline.run_folder import RunFolder
from tests.toy import runs
from tests.toy.runs import MODELS, RECIPE, run, write_all


def content(folder: Path) -> dict[str, bytes]:
    """All files of a folder except the lock."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.fixture
def old_run(tmp_path: Path) -> Path:
    """A finished run as version 0.1.0 wrote it: no version.json, other names of files and keys."""
    write_all(tmp_path)
    (tmp_path / "toy.yaml").write_text(RECIPE)
    run(tmp_path)
    (tmp_path / "toy.yaml").write_text(f"{RECIPE}model: {MODELS['transformer']}\n")
    folder = tmp_path / "run"
    (folder / "version.json").unlink()
    (folder / "fingerprints.json").rename(folder / "stamps.json")
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("\n  validate_every:", "\n  look_every:").rpartition("#")[0])
    config = folder / "model" / "config.json"
    fields = json.loads(config.read_text())
    fields["longest_source"] = fields.pop("max_source_length")
    config.write_text(json.dumps({**fields, "format": 1, "mtkit": "0.1.0", "sha256": fields["files"]}))
    return folder


def test_every_command_refuses_an_old_run_folder_and_fresh_starts_over(
    old_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(old_run)
    recipe, checkpoint = str(old_run.parent / "toy.yaml"), str(old_run / "checkpoints" / "update-00000004")
    of_run = (
        f"mtkit: error: {old_run}: written by mtkit 0.1.0 in run folder format 1, but mtkit {__version__} reads format "
        "3; train it again (--fresh, or another --run-dir), or use mtkit 0.1.0\n"
    )
    of_model = (
        f"mtkit: error: {old_run}/model/config.json: written by mtkit 0.1.0 in model format 1, but mtkit {__version__} "
        "reads format 3; train it again, or use mtkit 0.1.0\n"
    )
    commands = {
        ("run", recipe, "--run-dir", str(old_run)): of_run,
        ("train", recipe, "--run-dir", str(old_run)): of_run,
        ("evaluate", "--run", str(old_run)): of_run,
        ("average", checkpoint, "-o", str(old_run.parent / "mean")): of_run,
        ("translate", str(old_run), str(old_run.parent / "test.en")): of_model,
        ("average", str(old_run), "-o", str(old_run.parent / "mean")): of_model,
    }
    for command, message in commands.items():
        assert entry.execute(command) == 65, command
        assert capsys.readouterr().err.endswith(message), command
        assert content(old_run) == before, command
    assert not (old_run.parent / "mean").exists()
    assert entry.execute(["train", recipe, "--run-dir", str(old_run), "--fresh"]) == 0
    assert read_record(old_run / "version.json", remedy="") == {"format": 3, "mtkit": __version__}
    assert not (old_run / "checkpoints" / "update-00000005").exists()
    assert entry.execute(["train", recipe, "--run-dir", str(old_run)]) == 0
    assert "already finished" in capsys.readouterr().out


def test_a_training_continues_if_only_keys_with_their_default_were_added_since(tmp_path: Path) -> None:
    write_all(tmp_path)
    run(tmp_path)
    tokenizer = tmp_path / "run/tokenizer/fingerprint.json"
    fields = read_record(tokenizer, remedy="")
    del fields["config"]["min_frequency"], fields["config"]["pad_to_multiple_of"]
    write_record(tokenizer, fields)
    corpus = tmp_path / "run/corpus/train.0/manifest.json"
    fields = read_record(corpus, remedy="")
    del fields["cleaning"]["min_length_for_ratio"]
    write_record(corpus, fields)
    report, display = run(tmp_path, "training.max_updates=6")
    assert "resume" in display.names
    assert display.results["tokenizer"] == display.results["train.0"] == "unchanged, kept"
    assert report.content["train"]["updates"] == 6


def test_an_old_corpus_without_training_is_made_again(tmp_path: Path) -> None:
    write_all(tmp_path)
    run(tmp_path, "training.max_updates=1")
    folder = tmp_path / "run"
    for name in ("checkpoints", "model"):
        (folder / name).rename(tmp_path / name)
    (folder / "version.json").unlink()
    manifest = folder / "corpus" / "train.0" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 1}))
    _, display = run(tmp_path, "training.max_updates=1")
    assert len(display.damaged) == 1
    assert "manifest.json: damaged, or edited by hand" in display.damaged[0]
    assert "train.0" in display.results
    assert json.loads(manifest.read_text())["format"] == 2


@pytest.mark.whole
def test_a_training_that_0_2_0_started_resumes_to_the_bit(tmp_path: Path) -> None:
    """tests/toy/recipe_0.2.0.yaml is the recipe that 0.2.0 saved for this training; it also wrote a copy of it."""
    write_all(tmp_path)
    keys = [f"model={MODELS['transformer']}", "defaults=corpus", "training.seed=3", "training.precision=float32"]
    recipe, whole, old = str(tmp_path / "toy.yaml"), tmp_path / "whole", RunFolder(tmp_path / "old")
    assert entry.execute(["train", recipe, *keys, "--run-dir", str(whole)]) == 0
    assert entry.execute(["train", recipe, *keys, "--run-dir", str(old.path), "training.max_hours=1e-9"]) == 0
    assert not old.model.exists()
    text = (Path(runs.__file__).parent / "recipe_0.2.0.yaml").read_text().replace("FOLDER", str(tmp_path))
    for name in ("recipe.yaml", ".recipe.yaml"):
        write_text_record(old.path / name, text)
    write_record(old.version, {"format": 3, "mtkit": "0.2.0"})
    assert entry.execute(["train", recipe, *keys, "--run-dir", str(old.path)]) == 0
    assert (old.model / WEIGHTS).read_bytes() == (whole / "model" / WEIGHTS).read_bytes()
