"""What a training stands on besides its text: a model that it begins from, a valid set that its rate depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit import pipeline
from mtkit.errors import RecipeError
from tests.e2e.test_pipeline import Heard, run, sentences, toy, write_all, write_pair


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all(tmp_path)
    return tmp_path


def test_fine_tuning_begins_from_a_model(folder: Path) -> None:
    run(folder)
    write_pair(folder, "more", sentences(20, 6))
    overrides = [f"training.init_from={folder / 'run'}", f"corpus.train.0.src={folder / 'more.en'}"]
    recipe = toy(folder, *overrides, f"corpus.train.0.tgt={folder / 'more.de'}")
    heard = Heard()
    pipeline.train(recipe, run_dir=folder / "tuned", display=heard)
    assert heard.results["tokenizer"] == f"taken from {folder / 'run' / 'model'}"
    spm = "model/spm.model"
    assert (folder / "tuned" / spm).read_bytes() == (folder / "run" / spm).read_bytes()
    (folder / "run").rename(folder / "away")  # what was begun needs it no more
    longer = toy(folder, *overrides, f"corpus.train.0.tgt={folder / 'more.de'}", "training.max_updates=5")
    assert pipeline.train(longer, run_dir=folder / "tuned").content["train"]["updates"] == 5
    (folder / "away").rename(folder / "run")
    wider = toy(folder, *overrides, f"corpus.train.0.tgt={folder / 'more.de'}", "model.d_ff=16")
    with pytest.raises(RecipeError, match=r"training.init_from: .*: its weights do not fit this recipe's model: "):
        pipeline.train(wider, run_dir=folder / "other")


def test_a_changed_valid_set_is_refused_where_the_learning_rate_depends_on_it(folder: Path) -> None:
    recipe = toy(folder, "training.schedule={kind: plateau}")
    pipeline.train(recipe, run_dir=folder / "run")
    write_pair(folder, "valid", sentences(5, 3))
    with pytest.raises(RecipeError, match=r"the valid set, which .* \(training.schedule\), changed since"):
        pipeline.train(recipe, run_dir=folder / "run")
