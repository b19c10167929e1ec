"""Which changes of a recipe a training survives."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.pipeline.reconcile import Changes, changes
from mtkit.recipe.recipe import Recipe, load_recipe


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.yaml"
    path.write_text(
        "name: x\nmodel: {kind: lstm}\n"
        "corpus: {src_lang: en, tgt_lang: de, train: [{src: a, tgt: b}], valid: {src: c, tgt: d}}\n"
    )
    return path


def compared(path: Path, *overrides: str, before: tuple[str, ...] = ()) -> Changes:
    old: Recipe = load_recipe(str(path), before)
    return changes(old, load_recipe(str(path), [*before, *overrides]))


def changed(path: Path, *overrides: str, before: tuple[str, ...] = ()) -> list[str]:
    return compared(path, *overrides, before=before).fatal


@pytest.mark.parametrize(
    "override",
    [
        "name=y",
        "search.beam_size=1",
        "search.length_penalty={kind: gnmt, alpha: 1}",
        "evaluation.metrics=[ter]",
        "training.validate_every=7",
        "training.patience=3",
        "training.max_hours=1",
        "training.activation_checkpointing=true",
        "training.on_divergence={most: 1}",
        "training.average={checkpoints: 3}",
        "corpus.test={t: {src: x, tgt: y}}",
        "corpus.valid=null",
        "corpus.root=/elsewhere",
        "corpus.train.0.src=moved",
    ],
)
def test_harmless(path: Path, override: str) -> None:
    assert changed(path, override) == []


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("training.seed=2", ["training.seed: 1, now 2"]),
        ("training.clip_norm=null", ["training.clip_norm: 1.0, now null"]),
        ("training.max_updates=1", ["training.max_updates: 4000, now 1"]),  # the linear schedule ends there
        ("training.schedule.kind=cosine", ['training.schedule.kind: "linear", now "cosine"']),
        ("model.kind=transformer", ['model.kind: "lstm", now "transformer"']),
        ("corpus.src_lang=fr", ['corpus.src_lang: "en", now "fr"']),
        ("corpus.cleaning.max_length=9", ["corpus.cleaning.max_length: 256, now 9"]),
        ("corpus.train.0.weight=2", ["corpus.train.0.weight: null, now 2.0"]),
        ("training.moving_average=null", ["training.moving_average: not there, now null"]),
    ],
)
def test_not_harmless(path: Path, override: str, expected: list[str]) -> None:
    assert changed(path, override)[-1:] == expected


def test_the_end_may_move_where_no_schedule_depends_on_it(path: Path) -> None:
    assert changed(path, "training.max_updates=9", before=("training.schedule={kind: inverse_sqrt}",)) == []


def test_validation_is_not_harmless_where_the_rate_depends_on_it(path: Path) -> None:
    found = changed(path, "training.validate_every=7", before=("training.schedule={kind: plateau}",))
    assert found == ["training.validate_every: 500, now 7"]


def test_how_bleu_is_found_is_not_harmless_where_the_rate_depends_on_it(path: Path) -> None:
    keys = ("search.length_penalty=0", "evaluation.tokenize=char", "search.beam_size=1", "evaluation.metrics=[ter]")
    plateau = ("training.schedule={kind: plateau}",)
    found = changed(path, *keys, before=(*plateau, "training.validation={metric: bleu}"))
    assert found == ["search.length_penalty: 1.0, now 0.0", 'evaluation.tokenize: "auto", now "char"']
    assert changed(path, *keys, before=plateau) == []  # validation has a beam of its own, and nll needs none


def test_the_length_of_translations_is_not_harmless_where_training_draws_them(path: Path) -> None:
    keys = ("search.max_length={a: 2.0, b: 7}", "search.beam_size=1")
    found = changed(path, *keys, before=("training.objective={kind: minimum_risk}",))
    assert found == ["search.max_length.b: 10, now 7"]
    assert changed(path, *keys) == []


def test_one_more_corpus(path: Path) -> None:
    found = changed(path, "corpus.train.1={src: e, tgt: f}")
    assert found == ["corpus.train.1.weight: not there, now null"]


def test_what_does_no_harm_is_named_too(path: Path) -> None:
    found = compared(path, "training.patience=3", "training.seed=2", "search.beam_size=1", "corpus.train.0.src=moved")
    assert found == Changes(
        ["training.seed: 1, now 2"], ["training.patience: null, now 3", "search.beam_size: 5, now 1"]
    )
