"""Distillation in a run: half the layers of a teacher, trained from them; and teachers that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.errors import MissingInputError, RecipeError
from mtkit.model_folder.folder import read_metadata
from mtkit.models.transformer.config import TransformerConfig
from mtkit.pipeline import stages
from mtkit.recipe.recipe import load_recipe
from tests.toy.runs import toy, write_all

DEEP = "model.encoder_layers=2", "model.decoder_layers=2"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all(tmp_path)
    return tmp_path


def test_half_the_layers_learn_from_the_whole_model(folder: Path) -> None:
    teacher, half = folder / "teacher", folder / "half"
    stages.run(toy(folder, *DEEP), run_dir=teacher)
    assert entry.execute(["compress", str(teacher), "--to", "half-depth", "-o", str(half)]) == 0
    objective = f"training.objective={{kind: distillation, teacher: {teacher}}}"
    report = stages.run(toy(folder, f"training.init_from={half}", objective), run_dir=folder / "student")
    assert report.content["train"]["updates"] == 4
    config = read_metadata(folder / "student" / "model").model
    assert isinstance(config, TransformerConfig)
    assert (config.encoder_layers, config.decoder_layers) == (1, 1)


def test_refused(folder: Path, toy_model) -> None:
    other = toy_model(TransformerConfig(d_model=16, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1))
    objective = "training.objective={{kind: distillation, teacher: {}}}"
    with pytest.raises(
        RecipeError, match=r"training\.objective\.teacher: .*: its vocabulary is not that of this training"
    ):
        stages.run(toy(folder, objective.format(other)), run_dir=folder / "run")
    with pytest.raises(MissingInputError, match=r"training\.objective\.teacher: .*nowhere: no such folder"):
        stages.run(toy(folder, objective.format(folder / "nowhere")), run_dir=folder / "run2")
    wide = stages.run(toy(folder, "model.d_model=16"), run_dir=folder / "wide").run_dir
    with pytest.raises(RecipeError, match=r"objective\.cosine: .* teacher's have 16 numbers and the student's 8"):
        stages.run(toy(folder, objective.format(wide)), run_dir=folder / "run3")
    with pytest.raises(RecipeError, match=r"training\.objective\.kind: distillation needs .* teacher_forcing"):
        load_recipe(
            str(folder / "toy.yaml"),
            ["model={kind: transformer}", objective.format(other), "training.decoder_input={kind: scheduled_sampling}"],
        )
