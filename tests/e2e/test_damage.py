"""What is damaged in a run folder is named, and made again where that loses nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mtkit.errors import DamagedError, MissingInputError, RecipeError
from tests.e2e.test_pipeline import run, write_all


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all(tmp_path)
    return tmp_path


def flip(path: Path) -> bytes:
    """Change a bit in the middle of a file; gives what it was."""
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    return whole


def test_what_is_damaged_is_named_and_made_again(folder: Path) -> None:
    run(folder)
    place = folder / "run"
    names = ["tokenizer/spm.model", "corpus/train.0/src.ids.bin", "corpus/lexicon.safetensors"]
    names.append("model/model.safetensors")
    whole = {name: flip(place / name) for name in names}
    (place / "corpus" / "valid" / "line.bin").unlink()
    _, heard = run(folder)
    assert [name for name in names if (place / name).read_bytes() != whole[name]] == []
    assert len(heard.damaged) == 4
    assert not any("delete" in said for said in heard.damaged)
    for said, name in zip(heard.damaged, ("spm.model", "src.ids.bin", "line.bin", "model.safetensors"), strict=True):
        assert name in said
        assert "made again" in said


def test_a_training_whose_recipe_is_lost_does_not_go_on_with_any_other(folder: Path) -> None:
    run(folder)
    saved = folder / "run" / "recipe.yaml"
    saved.rename(folder / "saved")
    with pytest.raises(RecipeError, match=r"run/recipe.yaml: no such file, .*; put it back, .* --fresh"):
        run(folder, "training.optimiser={kind: lion}")
    (folder / "saved").rename(saved)
    assert run(folder)[1].results["training"] == "unchanged, kept"


def test_a_tokenizer_whose_stamp_is_lost_stays_if_it_comes_out_the_same(folder: Path) -> None:
    run(folder)
    (folder / "run" / "tokenizer" / "stamp.json").write_text("{")
    _, heard = run(folder)
    assert heard.results["train.0"] == "unchanged, kept"
    (folder / "run" / "tokenizer" / "stamp.json").unlink()
    flip(folder / "run" / "tokenizer" / "spm.vocab")
    with pytest.raises(RecipeError, match="came out differently"):
        run(folder)


def test_a_damaged_model_without_checkpoints_is_not_trained_again(folder: Path) -> None:
    run(folder)
    shutil.rmtree(folder / "run" / "checkpoints")
    flip(folder / "run" / "model" / "model.safetensors")
    with pytest.raises(DamagedError, match=r"no checkpoint is left to make it from; --fresh starts over"):
        run(folder)
    (folder / "run" / "report.json").unlink()
    with pytest.raises(MissingInputError, match=r"no checkpoint is left to go on from.*--fresh starts over"):
        run(folder)
    (folder / "run" / "report.json").write_text('{"train": 7}')
    with pytest.raises(DamagedError, match=r"report.json: damaged: train"):
        run(folder)
