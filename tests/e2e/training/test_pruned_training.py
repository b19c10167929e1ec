"""Models with pruned heads are trained further by the recipe of the whole model; gates that training closes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.errors import RecipeError
from mtkit.model_folder.folder import read_metadata, read_model
from mtkit.models.transformer.config import TransformerConfig
from mtkit.pipeline import stages
from mtkit.training.weights import weights
from tests.toy.runs import toy, write_all

MODEL = "model.num_heads=4", "model.encoder_layers=2", "model.decoder_layers=2"
KEYS = "encoder_heads", "decoder_heads", "cross_heads"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished run in whole/, and its model without 40 % of the heads in pruned/."""
    write_all(tmp_path)
    stages.run(toy(tmp_path, *MODEL), run_dir=tmp_path / "whole")
    text = ["--src", str(tmp_path / "valid.en"), "--ref", str(tmp_path / "valid.de")]
    words = ["compress", str(tmp_path / "whole"), "--to", "heads", "-o", str(tmp_path / "pruned"), *text]
    assert entry.execute(words) == 0
    return tmp_path


def counts(path: Path) -> dict[str, list[int] | None]:
    config = read_metadata(path).model
    assert isinstance(config, TransformerConfig)
    return {key: getattr(config, key) for key in KEYS}


@pytest.mark.whole
def test_it_keeps_its_heads_and_resumes(folder: Path) -> None:
    pruned, further = folder / "pruned", folder / "further"
    assert sum(sum(each or []) for each in counts(pruned).values()) == 14  # of 24
    recipe = toy(folder, *MODEL, f"training.init_from={pruned}")
    assert stages.run(recipe, run_dir=further).content["train"]["updates"] == 4
    assert counts(further / "model") == counts(pruned)
    before, after = (weights(read_model(path).model) for path in (pruned, further / "model"))
    assert {name: tensor.shape for name, tensor in after.items()} == {n: tensor.shape for n, tensor in before.items()}
    changed = [name for name, tensor in after.items() if not tensor.equal(before[name])]
    assert changed
    moved = folder / "elsewhere"
    pruned.rename(moved)  # a started training needs it no longer
    more = toy(folder, *MODEL, f"training.init_from={pruned}", "training.max_updates=6")
    assert stages.run(more, run_dir=further).content["train"]["updates"] == 6
    assert counts(further / "model") == counts(moved)


@pytest.mark.whole
def test_training_starts_from_its_weights(folder: Path) -> None:
    """With a learning rate of almost 0 the trained model is the pruned one."""
    rate = "training.optimiser={kind: adam, learning_rate: 1.0e-12}"
    recipe = toy(folder, *MODEL, f"training.init_from={folder / 'pruned'}", rate)
    stages.run(recipe, run_dir=folder / "further")
    before, after = (weights(read_model(folder / name).model) for name in ("pruned", "further"))
    assert all(tensor.allclose(before[name], atol=1e-8) for name, tensor in after.items())


@pytest.mark.whole
def test_the_recipe_may_state_the_heads(folder: Path) -> None:
    stated = {key: value or [] for key, value in counts(folder / "pruned").items()}
    keys = [f"model.{key}={value}" for key, value in stated.items()]
    stages.run(toy(folder, *MODEL, *keys, f"training.init_from={folder / 'pruned'}"), run_dir=folder / "further")
    assert counts(folder / "further" / "model") == stated
    wrong = [*keys[:-1], f"model.cross_heads={[4, 4]}"]
    with pytest.raises(RecipeError, match=r"its weights do not match this recipe's model: decoder\.0\.cross_attention"):
        stages.run(toy(folder, *MODEL, *wrong, f"training.init_from={folder / 'pruned'}"), run_dir=folder / "other")


def test_another_number_of_layers_is_refused(folder: Path) -> None:
    recipe = toy(folder, *MODEL[:2], "model.decoder_layers=1", f"training.init_from={folder / 'pruned'}")
    message = r"^training\.init_from: .*pruned: heads were pruned: model\.decoder_heads: 2 counts for 1 layers"
    with pytest.raises(RecipeError, match=message):
        stages.run(recipe, run_dir=folder / "further")


@pytest.mark.whole
def test_a_part_of_a_pruned_model_brings_no_counts(folder: Path) -> None:
    part = f"training.init_from={{model: {folder / 'pruned'}, parts: [embeddings.src]}}"
    stages.run(toy(folder, *MODEL, part), run_dir=folder / "further")
    assert counts(folder / "further" / "model") == dict.fromkeys(KEYS)


@pytest.mark.whole
def test_gates_are_trained_from_a_model_without_them_and_prune_it(folder: Path, capsys: pytest.CaptureFixture) -> None:
    gated, small = folder / "gated", folder / "small"
    gates = "model.head_gates={penalty: 100, rate: 1000}"  # closes all gates in four updates
    fast = "training.ema=null", "training.optimiser={kind: adam, learning_rate: 0.01}"
    stages.run(toy(folder, *MODEL, gates, *fast, f"training.init_from={folder / 'whole'}"), run_dir=gated)
    capsys.readouterr()
    assert entry.execute(["translate", str(gated), str(folder / "test.en")]) == 0
    expected = capsys.readouterr().out
    assert entry.execute(["compress", str(gated), "--to", "heads", "-o", str(small)]) == 0  # gates need no text
    assert counts(small) == {"encoder_heads": [1, 1], "decoder_heads": [1, 1], "cross_heads": [1, 1]}
    capsys.readouterr()
    assert entry.execute(["translate", str(small), str(folder / "test.en")]) == 0
    assert capsys.readouterr().out == expected
    assert entry.execute(["compress", str(gated), "--to", "heads", "--fraction", "0.25", "-o", str(small)]) == 0
    assert sum(sum(each or []) for each in counts(small).values()) == 18
    code = entry.execute(["export", str(gated), "--to", "ctranslate2", "-o", str(folder / "exported")])
    assert (code, "model.head_gates: " in capsys.readouterr().err) == (2, True)
