"""Study files: every message that a user can cause, variants and grids, what is stated on top of what."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.errors import MissingInputError, RecipeError
from mtkit.recipe.recipe import Recipe
from mtkit.recipe.shipped import shipped
from mtkit.study.load import read_study
from mtkit.study.runs import runs_of
from mtkit.training.decoder_inputs.interface import TargetPieces
from tests.unit.study.made_up import STUDY, toy_corpus, toy_study


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    toy_corpus(tmp_path)
    return tmp_path


def fault(folder: Path, *overrides: str, text: str = STUDY) -> str:
    (folder / "study.yaml").write_text(text)
    with pytest.raises((RecipeError, MissingInputError)) as caught:
        toy_study(folder, *overrides)
    return str(caught.value).replace(str(folder / "study.yaml"), "FILE").replace(str(folder), "FOLDER")


def test_variants_stand_on_the_budget_and_the_budget_on_the_base(folder: Path) -> None:
    budget = "budget: {model: {dropout: 0.2, d_ff: 16}}\n"
    (folder / "study.yaml").write_text(STUDY.replace("pre: {}", "pre: {model: {d_ff: 32}}") + budget)
    study = toy_study(folder)
    pre, post = study.recipes["pre"].model, study.recipes["post"].model
    assert (pre.d_model, pre.dropout, pre.d_ff) == (8, 0.2, 32)
    assert (post.d_model, post.dropout, post.d_ff) == (8, 0.2, 16)
    assert (pre.norm.kind, post.norm.kind) == ("pre", "post")
    assert study.recipes["pre"].corpus.train[0].src == folder / "train.en"
    assert (study.baseline, study.test) == ("pre", "toy")


def test_overrides_are_of_the_study_or_of_its_budget(folder: Path) -> None:
    study = toy_study(folder, "seeds=[5]", "training.max_updates=9", "baseline=post", "test=other")
    assert study.config.seeds == [5]
    assert [recipe.training.max_updates for recipe in study.recipes.values()] == [9, 9]
    assert (study.baseline, study.test) == ("post", "other")


def test_a_grid_is_every_combination_of_every_variant(folder: Path) -> None:
    grid = "grid={training.schedule.warmup: [0, 50], model.norm: [{kind: deep}, {norm_layer: {kind: rms}}]}"
    found = toy_study(folder, grid).recipes
    assert len(found) == 8
    assert list(found)[:2] == ["pre+warmup=0+norm=deep", "pre+warmup=0+norm=1"]
    recipe = found["post+warmup=50+norm=1"]
    assert (recipe.training.schedule.warmup, recipe.model.norm.kind, recipe.model.norm.norm_layer.kind) == (
        50,
        "post",
        "rms",
    )
    alone = toy_study(folder, "variants={}", "grid={model.norm.kind: [pre, post], training.clip_norm: [null]}")
    assert list(alone.recipes) == ["norm=pre+clip_norm=none", "norm=post+clip_norm=none"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: post", "kind: pst", "FILE:5: model.norm.kind: no such kind: 'pst'; did you mean post?"),
        ("model:", "modle:", "FILE:5: modle: no such key; did you mean model?"),
        ("seeds:", "seds:", "FILE:6: seds: no such key; did you mean seeds?"),
        ("[1, 2]", "[1, 1]", "FILE:6: seeds: 1 is there twice"),
        ("[1, 2]", "[]", "FILE:6: seeds: must have at least 1 item"),
        ("[1, 2]", "one", "FILE:6: seeds: 'one' is not a list"),
        ("name: norms", "name: a/b", "FILE:1: name: 'a/b': must match pattern"),
        ("pre: {}", "a b: {}", "FILE:4: variants.a b: must match pattern"),
        ("pre: {}", "pre:", "FILE:4: pre: None is not a mapping of a recipe's keys"),
        ("pre: {}", "pre: {name: x}", "FILE:4: name: the study names its runs; take this key out"),
        ("pre: {}", "pre: {training: {seed: 3}}", "FILE:4: training.seed: the seeds of a study are stated once"),
        ("toy.yaml", "tiy.yaml", "FILE:2: base: tiy.yaml: no such recipe"),
        ("toy.yaml", "quickstat", "FILE:2: base: quickstat: no such recipe; did you mean quickstart?"),
        (STUDY, "- a\n", "FILE:1: a study is a mapping with the keys name, base, budget, variants, "),
    ],
)
def test_messages(folder: Path, old: str, new: str, message: str) -> None:
    assert fault(folder, text=STUDY.replace(old, new)).startswith(message)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.max_update=1", "command line: training.max_update: no such key; did you mean max_updates?"),
        ("baseline=pro", "command line: baseline: pro: no such variant; did you mean pre?"),
        ("test=toi", "command line: test: toi: no such test set; did you mean toy?"),
        ("corpus.test=null", "command line: corpus.test: "),
        ("variants={}", "command line: variants: there is nothing to compare"),
        ("by_length=[10, 5]", "command line: by_length: [10, 5] does not rise"),
        ("evaluation.metrics=[chrf]", "FILE:1: pre: evaluation.metrics: a study compares by bleu"),
        ("grid={training.seed: [1]}", "command line: training.seed: the seeds of a study are stated once"),
        ("grid={model.d_ff: [8, 8]}", "command line: grid: two combinations are called pre+d_ff=8"),
        ("begin_from.post=pra", "command line: begin_from: pra: no such variant; did you mean pre?"),
        ("begin_from={post: pre, pre: post}", "command line: begin_from.post: pre itself begins from another"),
        ("variants.post.corpus.test.toy.src=x", "FILE:1: test: toy: post has other files of that name than pre"),
    ],
)
def test_messages_on_overrides(folder: Path, override: str, message: str) -> None:
    assert fault(folder, override).startswith(message)


def test_the_faults_of_all_variants_at_once_and_each_once(folder: Path) -> None:
    text = STUDY.replace("pre: {}", "pre: {model: {d_f: 1}}").replace("kind: post", "kind: pst")
    lines = fault(folder, text=text + "budget: {training: {sed: 1}}\n").split("\n")
    kinds = "(the kinds are pre, post, sandwich, deep)"
    assert sorted(lines) == [
        "FILE:4: model.d_f: no such key for kind transformer; did you mean d_ff? (pre)",
        f"FILE:5: model.norm.kind: no such kind: 'pst'; did you mean post? {kinds} (post)",
        "FILE:7: training.sed: no such key; did you mean seed?",
    ]


def test_a_study_that_is_not_there() -> None:
    with pytest.raises(MissingInputError, match="positins: no such study; did you mean positions"):
        read_study("positins")


@pytest.mark.parametrize("name", shipped("study"))
def test_shipped_studies_are_good(name: str, tmp_path: Path) -> None:
    study = read_study(name)
    assert study.config.name == name
    assert study.config.seeds == [1, 2, 3]
    assert study.baseline in study.recipes
    pieces = TargetPieces(size=40, first=4, pad=0, unk=1, bos=2, eos=3)
    for recipe in study.recipes.values():
        assert recipe.model.build(40, 40).training
        recipe.training.decoder_input.build(pieces)
    recipes: list[Recipe] = [run.recipe for run in runs_of(study, tmp_path)]
    assert len({recipe.name for recipe in recipes}) == 3 * len(study.recipes)


def test_all_promised_studies_are_shipped() -> None:
    promised = {"positions", "extrapolation", "heads", "norms", "feedforward", "layouts", "exposure-bias"}
    promised |= {"recurrent", "source-length"}
    assert promised <= shipped("study").keys()


def test_extrapolation_has_lines_beyond_all_training_and_leaves_them_whole() -> None:
    study = read_study("extrapolation")
    for recipe in study.recipes.values():
        assert recipe.corpus.cleaning.max_length in study.config.by_length  # pieces; a word has one at least
        assert not recipe.search.split_long_lines


def test_the_index_names_all_that_is_shipped() -> None:
    index = (next(iter(shipped("recipe").values())).parent / "README.md").read_text(encoding="utf-8")
    assert [name for name in [*shipped("recipe"), *shipped("study")] if f"`{name}`" not in index] == []


def test_the_study_file_of_the_index_is_one(folder: Path) -> None:
    index = (next(iter(shipped("recipe").values())).parent / "README.md").read_text(encoding="utf-8")
    (folder / "study.yaml").write_text(index.partition("```yaml\n")[2].partition("```")[0])
    study = toy_study(folder)
    assert study.baseline == "pre+warmup=100"
    assert set(index.partition("```yaml\n")[2].partition("```")[0].split()) >= {f"{key}:" for key in vars(study.config)}
