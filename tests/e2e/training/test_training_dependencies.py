"""Inputs of a training besides its text: a pre-trained model, and a validation set that sets the learning rate."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.errors import RecipeError
from mtkit.pipeline import stages
from tests.toy.runs import RecordingDisplay, run, sentences, toy, write_all, write_pair


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all(tmp_path)
    return tmp_path


@pytest.mark.whole
def test_fine_tuning_starts_from_a_model_and_then_no_longer_needs_it(folder: Path) -> None:
    run(folder)
    write_pair(folder, "more", sentences(20, 6))
    overrides = [f"training.init_from={folder / 'run'}", f"corpus.train.0.src={folder / 'more.en'}"]
    recipe = toy(folder, *overrides, f"corpus.train.0.tgt={folder / 'more.de'}")
    display = RecordingDisplay()
    stages.train(recipe, run_dir=folder / "tuned", display=display)
    assert display.results["tokenizer"] == f"copied from {folder / 'run' / 'model'}"
    spm = "model/spm.model"
    assert (folder / "tuned" / spm).read_bytes() == (folder / "run" / spm).read_bytes()
    (folder / "run").rename(folder / "away")  # a training that was started has its own copy
    longer = toy(folder, *overrides, f"corpus.train.0.tgt={folder / 'more.de'}", "training.max_updates=5")
    assert stages.train(longer, run_dir=folder / "tuned").content["train"]["updates"] == 5
    (folder / "away").rename(folder / "run")
    wider = toy(folder, *overrides, f"corpus.train.0.tgt={folder / 'more.de'}", "model.d_ff=16")
    with pytest.raises(RecipeError, match=r"training.init_from: .*: its weights do not match this recipe's model: "):
        stages.train(wider, run_dir=folder / "other")


def test_a_changed_valid_set_is_refused_where_the_learning_rate_depends_on_it(folder: Path) -> None:
    recipe = toy(folder, "training.schedule={kind: plateau}")
    stages.train(recipe, run_dir=folder / "run")
    write_pair(folder, "valid", sentences(5, 3))
    with pytest.raises(RecipeError, match=r"the validation set, which .* \(training.schedule\), changed since"):
        stages.train(recipe, run_dir=folder / "run")
