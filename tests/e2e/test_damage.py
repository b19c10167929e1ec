"""Damage in a run folder: damaged files are named, and made again where nothing is lost by it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mtkit.errors import DamagedError, MissingInputError, RecipeError
from tests.toy.runs import run, write_all


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all(tmp_path)
    return tmp_path


def flip(path: Path) -> bytes:
    """Flip a bit in the middle of a file; return its content before."""
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    return whole


def test_damaged_files_are_named_and_made_again(folder: Path) -> None:
    run(folder)
    run_folder = folder / "run"
    names = ["tokenizer/spm.model", "corpus/train.0/src.ids.bin", "corpus/lexicon.safetensors"]
    names.append("model/model.safetensors")
    intact = {name: flip(run_folder / name) for name in names}
    (run_folder / "corpus" / "valid" / "line.bin").unlink()
    _, display = run(folder)
    assert [name for name in names if (run_folder / name).read_bytes() != intact[name]] == []
    assert len(display.damaged) == 4
    assert not any("delete" in message for message in display.damaged)
    files = ("spm.model", "src.ids.bin", "line.bin", "model.safetensors")
    for message, name in zip(display.damaged, files, strict=True):
        assert name in message
        assert "made again" in message


def test_a_training_without_its_recipe_does_not_continue_with_another(folder: Path) -> None:
    run(folder)
    saved = folder / "run" / "recipe.yaml"
    saved.rename(folder / "saved")
    with pytest.raises(RecipeError, match=r"run/recipe.yaml: no such file, .*; restore the file, .* --fresh"):
        run(folder, "training.optimiser={kind: lion}")
    (folder / "saved").rename(saved)
    assert run(folder)[1].results["training"] == "unchanged, kept"


def test_a_tokenizer_without_fingerprint_is_kept_if_training_it_again_gives_the_same(folder: Path) -> None:
    run(folder)
    (folder / "run" / "tokenizer" / "fingerprint.json").write_text("{")
    _, display = run(folder)
    assert display.results["train.0"] == "unchanged, kept"
    (folder / "run" / "tokenizer" / "fingerprint.json").unlink()
    flip(folder / "run" / "tokenizer" / "spm.vocab")
    with pytest.raises(RecipeError, match="training it again gave another one"):
        run(folder)


def test_a_damaged_model_without_checkpoints_is_not_trained_again(folder: Path) -> None:
    run(folder)
    shutil.rmtree(folder / "run" / "checkpoints")
    flip(folder / "run" / "model" / "model.safetensors")
    with pytest.raises(DamagedError, match=r"no checkpoint to restore it from; start over with --fresh"):
        run(folder)
    (folder / "run" / "report.json").unlink()
    with pytest.raises(MissingInputError, match=r"no checkpoint to resume from.*start over with --fresh"):
        run(folder)
    (folder / "run" / "report.json").write_text('{"train": 7}')
    with pytest.raises(DamagedError, match=r"report.json: damaged: train"):
        run(folder)
