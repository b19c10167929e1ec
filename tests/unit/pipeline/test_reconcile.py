"""Changes of a recipe that a training can continue with, and others."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtkit.config import config
from mtkit.pipeline.reconcile import Changes, compare_recipes, training_fingerprint, validation_fingerprints
from mtkit.recipe.recipe import load_recipe
from mtkit.recipe.sections import Recipe
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.search.length_penalty import GNMT
from mtkit.training.config import TrainingConfig, ValidationConfig
from mtkit.training.progress import BestUpdates, Progress, ScoredUpdate


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.yaml"
    path.write_text(
        "name: x\nmodel: {kind: rnn}\n"
        "corpus: {src_lang: en, tgt_lang: de, train: [{src: a, tgt: b}], valid: {src: c, tgt: d}}\n"
    )
    return path


def compared(path: Path, *overrides: str, before: tuple[str, ...] = ()) -> Changes:
    old: Recipe = load_recipe(str(path), before)
    return compare_recipes(old, load_recipe(str(path), [*before, *overrides]))


def fatal_changes(path: Path, *overrides: str, before: tuple[str, ...] = ()) -> list[str]:
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
        "training.on_divergence={max_recoveries: 1}",
        "training.checkpoint_average={count: 3}",
        "corpus.test={t: {src: x, tgt: y}}",
        "corpus.valid=null",
        "corpus.root=/elsewhere",
        "corpus.train.0.src=moved",
    ],
)
def test_harmless_changes(path: Path, override: str) -> None:
    assert fatal_changes(path, override) == []


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("training.seed=2", ["training.seed: 1, now 2"]),
        ("training.clip_norm=null", ["training.clip_norm: 1.0, now null"]),
        ("training.max_updates=1", ["training.max_updates: 4000, now 1"]),  # the linear schedule ends there
        ("training.schedule.kind=cosine", ['training.schedule.kind: "linear", now "cosine"']),
        ("model.kind=transformer", ['model.kind: "rnn", now "transformer"']),
        ("corpus.src_lang=fr", ['corpus.src_lang: "en", now "fr"']),
        ("corpus.cleaning.max_length=9", ["corpus.cleaning.max_length: 256, now 9"]),
        ("corpus.train.0.weight=2", ["corpus.train.0.weight: null, now 2.0"]),
        ("training.ema=null", ["training.ema: absent, now null"]),
    ],
)
def test_fatal_changes(path: Path, override: str, expected: list[str]) -> None:
    assert fatal_changes(path, override)[-1:] == expected


def test_max_updates_may_change_if_no_schedule_depends_on_it(path: Path) -> None:
    assert fatal_changes(path, "training.max_updates=9", before=("training.schedule={kind: inverse_sqrt}",)) == []


def test_validation_must_not_change_under_a_plateau_schedule(path: Path) -> None:
    changes = fatal_changes(path, "training.validate_every=7", before=("training.schedule={kind: plateau}",))
    assert changes == ["training.validate_every: 500, now 7"]


def test_keys_of_validation_bleu_must_not_change_under_a_plateau_schedule_of_bleu(path: Path) -> None:
    keys = ("search.length_penalty=0", "evaluation.tokenize=char", "search.beam_size=1", "evaluation.metrics=[ter]")
    plateau = ("training.schedule={kind: plateau}",)
    changes = fatal_changes(path, *keys, before=(*plateau, "training.validation={metric: bleu}"))
    assert changes == ["search.length_penalty: 1.0, now 0.0", 'evaluation.tokenize: "auto", now "char"']
    assert fatal_changes(path, *keys, before=plateau) == []  # validation has its own beam size, and nll needs no search


def test_max_length_must_not_change_where_training_samples_translations(path: Path) -> None:
    keys = ("search.max_length={factor: 2.0, offset: 7}", "search.beam_size=1")
    changes = fatal_changes(path, *keys, before=("training.objective={kind: minimum_risk}",))
    assert changes == ["search.max_length.offset: 10, now 7"]
    assert fatal_changes(path, *keys) == []


def test_an_additional_corpus_is_fatal(path: Path) -> None:
    changes = fatal_changes(path, "corpus.train.1={src: e, tgt: f}")
    keys = ("tag", "prefix", "src_lang", "tgt_lang", "weight", "limit")
    assert changes == [f"corpus.train.1.{key}: absent, now null" for key in keys]


def test_harmless_changes_are_listed_too(path: Path) -> None:
    changes = compared(path, "training.patience=3", "training.seed=2", "search.beam_size=1", "corpus.train.0.src=moved")
    assert changes == Changes(
        ["training.seed: 1, now 2"], ["training.patience: null, now 3", "search.beam_size: 5, now 1"]
    )


@config
class LaterTrainingConfig(TrainingConfig):
    """A configuration with a key that a later version adds."""

    later_key: int = 7


def fingerprint(recipe: Recipe) -> str:
    return training_fingerprint(recipe.model, recipe.training)


def test_a_key_that_a_later_version_adds_does_not_change_the_fingerprint_of_a_training(path: Path) -> None:
    recipe = load_recipe(str(path), ["training.seed=2"])
    values = {field.name: getattr(recipe.training, field.name) for field in dataclasses.fields(recipe.training)}
    later = dataclasses.replace(recipe, training=LaterTrainingConfig(**values))
    stated = dataclasses.replace(recipe, training=LaterTrainingConfig(**values, later_key=8))
    assert fingerprint(later) == fingerprint(recipe)
    assert fingerprint(stated) != fingerprint(recipe)


@pytest.mark.parametrize(
    "override", ["training.seed=2", "model.d_model=64", "training.optimiser={kind: adamw}", "training.ema=null"]
)
def test_keys_of_model_and_training_change_the_fingerprint_of_a_training(path: Path, override: str) -> None:
    assert fingerprint(load_recipe(str(path), [override])) != fingerprint(load_recipe(str(path)))


STORE: Any = SimpleNamespace(
    manifest=SimpleNamespace(src=SimpleNamespace(sha256="a"), tgt=SimpleNamespace(sha256="b"), prefix="")
)
UNUSUAL: dict[str, Any] = {
    "length_penalty": GNMT(),
    "beam_size": 7,
    "retry_loops": False,
    "max_length": MaxLength(max=9),
    "patience": 2.0,
}


@config
class LaterSearchConfig(SearchConfig):
    """A search with a key of a later version."""

    stop_margin: float = 0.0


def fingerprints(search: SearchConfig, metric: str = "bleu") -> tuple[str, str]:
    validation: Any = ValidationConfig(metric=metric)  # type: ignore[arg-type]
    return validation_fingerprints(validation, search, "13a", [STORE])


@pytest.mark.parametrize("keys", [{}, UNUSUAL], ids=["defaults", "unusual"])
def test_a_new_search_key_at_its_default_does_not_change_the_validation_metric(keys: dict[str, Any]) -> None:
    assert fingerprints(LaterSearchConfig(**keys)) == fingerprints(SearchConfig(**keys))
    assert fingerprints(LaterSearchConfig(**keys, stop_margin=0.5))[0] != fingerprints(SearchConfig(**keys))[0]
    assert fingerprints(LaterSearchConfig(**keys, stop_margin=0.5), "nll") == fingerprints(SearchConfig(), "nll")


def test_keys_that_validation_overrides_do_not_change_its_metric_and_others_do() -> None:
    plain = fingerprints(SearchConfig())
    assert fingerprints(SearchConfig(beam_size=9, n_best=3)) == plain
    for key, value in UNUSUAL.items():
        assert (fingerprints(SearchConfig(**{key: value})) == plain) == (key == "beam_size")


@pytest.mark.parametrize(
    ("keys", "former"),
    [
        ({}, "9113d9881a219c92af4075ad655b5a58670ca88c1f1d3da2114fb6e8d973d855"),
        (UNUSUAL, "90ec9bdb62ef7d59396ffac0ff6bbe22d673d3a5ad1c80ba009d0076221cfc97"),
    ],
)
def test_a_training_with_the_former_fingerprint_keeps_its_best(keys: dict[str, Any], former: str) -> None:
    """The hashes are those that the former version computed, with all keys."""
    best = BestUpdates(ranked=(ScoredUpdate(0.5, 7),), since_best=1)
    progress = Progress(update=9, best_updates=best, validation_fingerprint=former)
    now = fingerprints(LaterSearchConfig(**keys))
    assert now[1] == former
    assert progress.with_metric(*now) == dataclasses.replace(progress, validation_fingerprint=now[0])
    other = fingerprints(SearchConfig(**keys, no_repeat_ngram=3))
    assert progress.with_metric(*other).best_updates == BestUpdates()
