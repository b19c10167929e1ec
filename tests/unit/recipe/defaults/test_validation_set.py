"""Choices of a recipe with a validation set, and of one without."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.recipe.recipe import load_recipe
from mtkit.recipe.sections import describe_choices


def choices(folder: Path, *keys: str) -> str:
    for side in ("en", "de"):
        (folder / f"t.{side}").write_text("a b c d\n" * 100)
    recipe = folder / "mine.yaml"
    recipe.write_text("corpus: {src_lang: en, tgt_lang: de, train: [{src: t.en, tgt: t.de}]}\n")
    return "\n".join(describe_choices(load_recipe(str(recipe), ["training.max_updates=1500", *keys])))


def test_without_a_validation_set_nothing_is_chosen_or_said_about_validations(tmp_path: Path) -> None:
    lines = choices(tmp_path)
    assert "training.checkpoint_every 100: 15 checkpoints" in lines
    assert "validat" not in lines


@pytest.mark.parametrize("every", [None, 100, 400])
def test_checkpoints_coincide_with_validations(tmp_path: Path, every: int | None) -> None:
    valid = f"corpus.valid={{src: {tmp_path}/t.en, tgt: {tmp_path}/t.de}}"
    lines = choices(tmp_path, valid, *([] if every is None else [f"training.validate_every={every}"]))
    assert ("training.validate_every 100, checkpoint_every 100: 15 validations" in lines) == (every is None)
    assert ("training.checkpoint_every 100: 15 validations" in lines) == (every == 100)
    assert ("training.checkpoint_every 100: 15 checkpoints" in lines) == (every == 400)
    assert "training.validation.sentences 200: " in lines
