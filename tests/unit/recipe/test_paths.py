"""Paths in a recipe: home folder, environment variables, and a dollar sign that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.errors import RecipeError
from mtkit.pipeline.run_folder import save_recipe
from mtkit.recipe.paths import escape_path, expand_path
from mtkit.recipe.recipe import load_recipe, load_saved, validate_recipe

RECIPE = """\
name: paths
corpus:
  root: $BASE/x
  src_lang: en
  tgt_lang: de
  train: [{src: "${SIDE}.en", tgt: "b$$c.de"}]
"""


def test_variables_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA", "/data")
    monkeypatch.setenv("HOME", "/home/me")
    assert expand_path("$DATA/${DATA}x/$1/a$/$$DATA") == "/data//datax/$1/a$/$DATA"
    assert expand_path("~/$DATA") == "/home/me//data"
    assert expand_path(escape_path(Path("/a$DATA/${b}"))) == "/a$DATA/${b}"


@pytest.mark.parametrize("text", ["$UNSET/x", "${UNSET}", "${EMPTY}", "${}", "${A B}"])
def test_an_unset_variable_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.delenv("UNSET", raising=False)
    monkeypatch.setenv("EMPTY", "")
    with pytest.raises(ValueError, match=r"the environment variable .* is not set"):
        expand_path(text)


def test_a_recipe_has_absolute_paths_and_can_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASE", str(tmp_path / "with$sign"))
    monkeypatch.setenv("SIDE", "train")
    (tmp_path / "paths.yaml").write_text(RECIPE)
    recipe = load_recipe(str(tmp_path / "paths.yaml"), ["training.init_from=$BASE/m"])
    assert recipe.corpus.train[0].src == tmp_path / "with$sign/x/train.en"
    assert recipe.corpus.train[0].tgt == tmp_path / "with$sign/x/b$c.de"
    assert recipe.training.init_from == tmp_path / "with$sign/m"
    monkeypatch.delenv("BASE")
    save_recipe(recipe, tmp_path / "saved.yaml")
    assert load_saved(tmp_path / "saved.yaml") == recipe == validate_recipe(recipe)


def test_an_unset_variable_is_one_sentence_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BASE", raising=False)
    monkeypatch.setenv("SIDE", "train")
    (tmp_path / "paths.yaml").write_text(RECIPE)
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(tmp_path / "paths.yaml"))
    assert str(caught.value) == (
        f"{tmp_path}/paths.yaml:3: corpus.root: '$BASE/x': the environment variable BASE is not set; set it, or write "
        "$$ if the path has a $"
    )


def test_a_base_may_have_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "paths.yaml").write_text(RECIPE.replace("$BASE/x", "x").replace("${SIDE}", "s"))
    (tmp_path / "top.yaml").write_text("base: $WHERE/paths.yaml\nname: top\n")
    monkeypatch.setenv("WHERE", str(tmp_path))
    assert load_recipe(str(tmp_path / "top.yaml")).name == "top"
    monkeypatch.delenv("WHERE")
    with pytest.raises(RecipeError, match=r"top.yaml:1: base: '\$WHERE/paths.yaml': the environment variable WHERE is"):
        load_recipe(str(tmp_path / "top.yaml"))
