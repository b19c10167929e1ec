"""Study files: messages about invalid studies, variants and grids, the order of merging."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.config import construct
from mtkit.errors import MissingInputError, RecipeError
from mtkit.recipe.paths import builtin_files
from mtkit.recipe.sections import Recipe
from mtkit.study.load import read_study
from mtkit.study.runs import runs_of
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from tests.toy.sampling import thinned
from tests.toy.studies import STUDY, toy_corpus, toy_study


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    toy_corpus(tmp_path)
    return tmp_path


def error(folder: Path, *overrides: str, text: str = STUDY) -> str:
    (folder / "study.yaml").write_text(text)
    with pytest.raises((RecipeError, MissingInputError)) as caught:
        toy_study(folder, *overrides)
    return str(caught.value).replace(str(folder / "study.yaml"), "FILE").replace(str(folder), "FOLDER")


def test_variants_override_common_keys_and_these_the_base(folder: Path) -> None:
    common = "common: {model: {dropout: 0.2, d_ff: 16}}\n"
    (folder / "study.yaml").write_text(STUDY.replace("pre: {}", "pre: {model: {d_ff: 32}}") + common)
    study = toy_study(folder)
    pre, post = study.recipes["pre"].model, study.recipes["post"].model
    assert (pre.d_model, pre.dropout, pre.d_ff) == (8, 0.2, 32)
    assert (post.d_model, post.dropout, post.d_ff) == (8, 0.2, 16)
    assert (pre.residual.kind, post.residual.kind) == ("pre_norm", "post_norm")
    assert study.recipes["pre"].corpus.train[0].src == folder / "train.en"
    assert (study.baseline, study.test) == ("pre", "toy")


def test_keys_of_variants_may_be_dotted(folder: Path) -> None:
    variants = "variants: {a: {}, b: {model.dropout: 0.2, model: {d_ff: 16}, training.schedule.kind: cosine}}\n"
    text = STUDY[: STUDY.index("variants")] + variants + "common.model.d_ff: 32\nseeds: [1]\n"
    (folder / "study.yaml").write_text(text.replace("common.model.d_ff: 32", "common: {model.d_ff: 32}"))
    first, second = toy_study(folder).recipes.values()
    assert (first.model.dropout, first.model.d_ff, second.model.dropout, second.model.d_ff) == (0.3, 32, 0.2, 16)
    assert second.training.schedule.kind == "cosine"
    assert "FILE:3: model.drop_out: no such key for kind transformer; did you mean dropout? (b)" in error(
        folder, text=text.replace("common.model.d_ff: 32\n", "").replace("model.dropout", "model.drop_out")
    )


def test_overrides_apply_to_the_study_or_to_all_recipes(folder: Path) -> None:
    study = toy_study(folder, "seeds=[5]", "training.max_updates=9", "baseline=post", "test=other")
    assert study.config.seeds == [5]
    assert [recipe.training.max_updates for recipe in study.recipes.values()] == [9, 9]
    assert (study.baseline, study.test) == ("post", "other")


def test_a_grid_is_every_combination_of_every_variant(folder: Path) -> None:
    grid = "grid={training.schedule.warmup: [0, 50], model.residual: [{kind: deepnorm}, {norm: {kind: rms}}]}"
    found = toy_study(folder, grid).recipes
    assert len(found) == 8
    assert list(found)[:2] == ["pre+warmup=0+residual=deepnorm", "pre+warmup=0+residual=1"]
    recipe = found["post+warmup=50+residual=1"]
    assert (recipe.training.schedule.warmup, recipe.model.residual.kind, recipe.model.residual.norm.kind) == (
        50,
        "post_norm",
        "rms",
    )
    grid = "grid={model.residual.kind: [pre_norm, post_norm], training.clip_norm: [null]}"
    alone = toy_study(folder, "variants={}", grid)
    assert list(alone.recipes) == ["residual=pre_norm+clip_norm=none", "residual=post_norm+clip_norm=none"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "kind: post_norm",
            "kind: pst_norm",
            "FILE:5: model.residual.kind: no such kind: 'pst_norm'; did you",
        ),
        ("model:", "modle:", "FILE:5: modle: no such key; did you mean model?"),
        ("seeds:", "seds:", "FILE:6: seds: no such key; did you mean seeds?"),
        ("[1, 2]", "[1, 1]", "FILE:6: seeds: 1 occurs twice"),
        ("[1, 2]", "[]", "FILE:6: seeds: must have at least 1 item"),
        ("[1, 2]", "one", "FILE:6: seeds: 'one' is not a list"),
        ("name: norms", "name: a/b", "FILE:1: name: 'a/b': must match pattern"),
        ("pre: {}", "a b: {}", "FILE:4: variants.a b: must match pattern"),
        ("pre: {}", "pre:", "FILE:4: pre: None is not a mapping of a recipe's keys"),
        ("pre: {}", "pre: {name: x}", "FILE:4: name: the study names its runs; remove this key"),
        ("pre: {}", "pre: {training: {seed: 3}}", "FILE:4: training.seed: a study has one list of seeds"),
        ("toy.yaml", "tiy.yaml", "FILE:2: base: tiy.yaml: no such recipe"),
        ("toy.yaml", "quickstat", "FILE:2: base: quickstat: no such recipe; did you mean quickstart?"),
        (STUDY, "- a\n", "FILE:1: a study is a mapping with the keys name, base, common, variants, "),
    ],
)
def test_messages(folder: Path, old: str, new: str, message: str) -> None:
    assert error(folder, text=STUDY.replace(old, new)).startswith(message)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.max_update=1", "command line: training.max_update: no such key; did you mean training.max_updates?"),
        ("baseline=pro", "command line: baseline: pro: no such variant; did you mean pre?"),
        ("test=toi", "command line: test: toi: no such test set; did you mean toy?"),
        ("corpus.test=null", "command line: corpus.test: "),
        ("variants={}", "command line: variants: nothing to compare"),
        ("bleu_by_length=[10, 5]", "command line: bleu_by_length: [10, 5] is not ascending"),
        ("by_length=[10]", "command line: by_length: no such key; did you mean bleu_by_length?"),
        ("budget={}", "command line: budget: no such key; known here: name, base, common"),
        ("evaluation.metrics=[chrf]", "FILE:1: pre: evaluation.metrics: a study compares by BLEU"),
        ("grid={training.seed: [1]}", "command line: training.seed: a study has one list of seeds"),
        ("grid={model.d_ff: [8, 8]}", "command line: grid: two combinations are named pre+d_ff=8"),
        ("init_from_variant.post=pra", "command line: init_from_variant: pra: no such variant; did you mean pre?"),
        (
            "init_from_variant={post: pre, pre: post}",
            "command line: init_from_variant.post: pre needs the model of a variant itself",
        ),
        ("teacher_variant.post=pre", "command line: teacher_variant.post: only a distillation has a teacher"),
        ("teacher_variant={post: pre, pre: post}", "command line: teacher_variant.post: pre needs the model of"),
        ("variants.post.corpus.test.toy.src=x", "FILE:1: test: toy: post and pre have different test files"),
    ],
)
def test_messages_on_overrides(folder: Path, override: str, message: str) -> None:
    assert error(folder, override).startswith(message)


def test_errors_of_all_variants_are_reported_once(folder: Path) -> None:
    text = STUDY.replace("pre: {}", "pre: {model: {d_f: 1}}").replace("kind: post_norm", "kind: pst_norm")
    lines = error(folder, text=text + "common: {training: {sed: 1}}\n").split("\n")
    kinds = "(the kinds are pre_norm, post_norm, sandwich, deepnorm, res_post_norm, none)"
    assert sorted(lines) == [
        "FILE:4: model.d_f: no such key for kind transformer; did you mean d_ff? (pre)",
        f"FILE:5: model.residual.kind: no such kind: 'pst_norm'; did you mean post_norm? {kinds} (post)",
        "FILE:7: training.sed: no such key; did you mean seed?",
    ]


def test_a_missing_study_is_answered_with_a_similar_name() -> None:
    with pytest.raises(MissingInputError, match="positins: no such study; did you mean positions"):
        read_study("positins")


@pytest.mark.parametrize("name", thinned(builtin_files("study"), 4))
def test_builtin_studies_are_valid(name: str, tmp_path: Path) -> None:
    study = read_study(name)
    assert study.config.name == name
    assert study.config.seeds == [1, 2, 3]
    assert study.baseline in study.recipes
    pieces = TargetVocabIds(size=40, first_text_id=4, end_text_id=40, pad=0, unk=1, bos=2, eos=3)
    for recipe in study.recipes.values():
        assert recipe.model.build(40, 40).training
        construct(recipe.training.decoder_input, pieces)
    recipes: list[Recipe] = [run.recipe for run in runs_of(study, tmp_path)]
    assert len({recipe.name for recipe in recipes}) == 3 * len(study.recipes)
    head = " ".join(builtin_files("study")[name].read_text(encoding="utf-8").partition("\nname:")[0].split("\n# "))
    assert f" {len(recipes)} runs" in head


def test_all_studies_of_the_documentation_are_built_in() -> None:
    promised = {"positions", "extrapolation", "heads", "norms", "feedforward", "layouts", "exposure-bias"}
    promised |= {"recurrent", "source-length"}
    assert promised <= builtin_files("study").keys()


def test_extrapolation_tests_sources_longer_than_any_in_training() -> None:
    study = read_study("extrapolation")
    for recipe in study.recipes.values():
        assert recipe.corpus.cleaning.max_length in study.config.bleu_by_length  # a word has at least one token
        assert not recipe.search.split_long_lines


def test_the_index_lists_all_builtin_files() -> None:
    index = (next(iter(builtin_files("recipe").values())).parent / "README.md").read_text(encoding="utf-8")
    assert [name for name in [*builtin_files("recipe"), *builtin_files("study")] if f"`{name}`" not in index] == []


def test_the_example_of_the_index_is_a_valid_study(folder: Path) -> None:
    index = (next(iter(builtin_files("recipe").values())).parent / "README.md").read_text(encoding="utf-8")
    (folder / "study.yaml").write_text(index.partition("```yaml\n")[2].partition("```")[0])
    study = toy_study(folder)
    assert study.baseline == "pre+warmup=100"
    assert set(index.partition("```yaml\n")[2].partition("```")[0].split()) >= {f"{key}:" for key in vars(study.config)}
