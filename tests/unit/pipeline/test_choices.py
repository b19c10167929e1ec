"""The recipe of a run: budgets, and choices that a started training keeps."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtkit.errors import UsageError
from mtkit.pipeline import choices, estimate, stages
from mtkit.pipeline.estimate import TrialTraining, estimate_training, seconds_per_update
from mtkit.recipe.defaults import choose as choose_module
from mtkit.recipe.defaults.facts import check_budget
from mtkit.recipe.defaults.schedule import updates_of_epochs
from mtkit.recipe.recipe import load_recipe, read_recipe
from mtkit.recipe.sections import Recipe, describe_choices
from tests.toy.runs import RecordingDisplay, sentences, write_pair

SHORT = ["training.max_updates=8", "training.validate_every=100"]
TINY = "model: {d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1}\n"


def load_run_recipe(path: str, overrides: Sequence[str] = (), *, budget: str | None = None, **folder: Any) -> Recipe:
    limits = check_budget(budget, overrides)
    return choices.choose_for_run(read_recipe(path, overrides), limits, **folder)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_pair(tmp_path, "train", sentences(60, 0))
    write_pair(tmp_path, "valid", sentences(6, 1))
    path = tmp_path / "toy.yaml"
    path.write_text(
        "corpus: {src_lang: en, tgt_lang: de, train: [{src: train.en, tgt: train.de}], "
        "valid: {src: valid.en, tgt: valid.de}}\n"
    )
    return path


def rate(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let an update of width 256 and 4,096 tokens take `seconds`, and a smaller one in proportion less."""

    def measured(recipe, limit):  # type: ignore[no-untyped-def]
        return seconds * recipe.model.d_model / 256 * recipe.training.batch_tokens / 4096

    monkeypatch.setattr(choices, "seconds_per_update", measured)
    monkeypatch.setattr("mtkit.recipe.defaults.choose.corpus_statistics", lambda src, tgt: large())


def updates_of(seconds: float) -> int:
    """Updates of one second each that a budget of this time gives (docs/defaults.md): 85%, a fifth for the rest."""
    return int(0.85 * seconds / 1.2)


def large():  # type: ignore[no-untyped-def]
    from tests.unit.recipe.defaults.test_choose import facts

    return facts(100_000).corpus


@pytest.mark.parametrize(
    ("seconds", "width", "fits"),
    [
        (0.001, 256, True),  # everything fits
        (0.3, 256, False),  # fewer updates
        (2.0, 128, False),  # a smaller model
    ],
)
def test_a_budget_limits_updates_and_then_the_size(
    path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, width: int, fits: bool
) -> None:
    rate(monkeypatch, seconds)
    unlimited = load_run_recipe(str(path))
    recipe = load_run_recipe(str(path), budget="1h")
    assert (unlimited.model.d_model, recipe.model.d_model) == (256, width)
    training = recipe.training
    assert (training.budget_updates is None) == fits
    limit = 0.85 * 3600 / choices.UPDATE_OVERHEAD
    assert training.scheduled_updates * seconds * width / 256 <= limit
    assert training.batch_tokens == unlimited.training.batch_tokens
    assert training.schedule.warmup == round(training.scheduled_updates / 10)  # type: ignore[union-attr]
    if not fits:
        assert training.scheduled_updates * seconds * width / 256 == pytest.approx(limit, rel=0.01)
        assert training.max_updates >= unlimited.training.max_updates  # a limit still; a smaller model has the same
        assert recipe.chosen["training.budget_updates"] == "1h of training"
    assert (training.budget_hours, recipe.chosen["training.budget_hours"]) == (1, "--budget 1h")
    assert unlimited.training.budget_hours is None


def test_a_budget_for_stated_epochs_follows_their_estimated_updates(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is enough for the estimate of about 2,060 updates, and not for the limit above it."""
    rate(monkeypatch, 1.0)
    recipe = load_run_recipe(str(path), ["training.max_epochs=4"], budget="1h")
    needed = updates_of_epochs(4, large().tokens, 4096)
    assert recipe.model.d_model == 256
    assert needed < 2400 < 2 * needed <= recipe.training.max_updates
    slow = load_run_recipe(str(path), ["training.max_epochs=12"], budget="1h")
    assert (slow.model.d_model, slow.training.scheduled_updates) == (256, updates_of(3600))


@pytest.mark.parametrize(("seconds", "layers"), [(1.0, 4), (3.0, 4), (5.0, 2), (12.0, 1), (40.0, 1)])
def test_a_short_budget_has_fewer_layers(
    path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, layers: int
) -> None:
    """With `seconds` for an update of four layers of width 256, and in proportion less for fewer."""
    rate(monkeypatch, 1.0)
    monkeypatch.setattr(
        choices,
        "seconds_per_update",
        lambda recipe, limit: seconds * recipe.model.d_model / 256 * recipe.model.decoder_layers / 4,
    )
    model = load_run_recipe(str(path), budget="1h").model
    assert (model.encoder_layers, model.decoder_layers) == (max(layers, 2), layers)


@pytest.mark.parametrize(("small_updates", "layers"), [(2100, 4), (1900, 2)])
def test_smaller_batches_come_before_fewer_layers(
    path: Path, monkeypatch: pytest.MonkeyPatch, small_updates: int, layers: int
) -> None:
    """With as many updates of 1,024 tokens and four layers as fit into the budget."""
    rate(monkeypatch, 0.0)
    seconds = 0.85 * 3600 / 1.2 / small_updates

    def measured(recipe, limit):  # type: ignore[no-untyped-def]
        return seconds * recipe.training.batch_tokens / 1024 * recipe.model.decoder_layers / 4

    monkeypatch.setattr(choices, "seconds_per_update", measured)
    recipe = load_run_recipe(str(path), budget="1h")
    assert (recipe.model.decoder_layers, recipe.training.batch_tokens) == (layers, 1024)
    assert recipe.tokenizer.vocab_size == 5000


@pytest.mark.parametrize(
    "override",
    [
        "model.encoder_layers=4",
        "model.d_model=64",
        "model.encoder_sharing={kind: cycle, distinct: 3}",
        "model.decoder_sharing={kind: sequence, distinct: 2}",
        "model.feed_forward={kind: moe}",
    ],
)
def test_layers_that_a_key_depends_on_are_kept(path: Path, monkeypatch: pytest.MonkeyPatch, override: str) -> None:
    rate(monkeypatch, 40.0)
    model = load_run_recipe(str(path), [override], budget="1h").model
    assert (model.encoder_layers, model.decoder_layers) == (4, 4)


def test_a_budget_for_few_stated_epochs_keeps_the_layers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all updates of these epochs fit, although they are fewer than any corpus gets without stated epochs."""
    rate(monkeypatch, 11.0)
    recipe = load_run_recipe(str(path), ["training.max_epochs=0.9"], budget="1h")
    assert updates_of_epochs(0.9, large().tokens, 4096) < choices.MIN_UPDATES
    assert (recipe.model.decoder_layers, recipe.training.batch_tokens) == (4, 4096)


@pytest.mark.parametrize(
    ("seconds", "batch_tokens", "updates"),
    [
        (4.0, 2048, 3600),  # half as many of 4,096 tokens
        (40.0, 1024, 720),  # the smallest batch, although more updates would be better
    ],
)
def test_a_short_budget_has_smaller_batches(
    path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, batch_tokens: int, updates: int
) -> None:
    rate(monkeypatch, seconds)
    training = load_run_recipe(str(path), budget="1h").training
    assert (training.batch_tokens, training.scheduled_updates) == (batch_tokens, updates_of(updates))
    stated = load_run_recipe(str(path), ["training.batch_tokens=8192"], budget="1h")
    assert (stated.training.batch_tokens, stated.chosen.get("training.batch_tokens")) == (8192, None)


def test_the_estimated_time_is_within_the_budget(path: Path) -> None:
    path.write_text(path.read_text() + TINY)
    seconds = estimate_training(load_recipe(str(path), ["training.budget_hours=1e-6"]), {}).seconds
    assert seconds == pytest.approx(3600e-6)


@pytest.mark.whole
def test_the_measured_time_grows_with_the_batch(path: Path) -> None:
    path.write_text(path.read_text() + TINY)
    few, many = (
        seconds_per_update(load_recipe(str(path), [f"training.batch_tokens={tokens}", "training.precision=float32"]))
        for tokens in (30, 30_000)
    )
    assert 0 < few < many


@pytest.mark.parametrize("override", ["training.max_updates=3", "training.budget_hours=2", "training.budget_updates=9"])
def test_a_budget_and_another_limit_contradict_each_other(path: Path, override: str) -> None:
    with pytest.raises(UsageError, match=rf"--budget 1h and {override} contradict each other"):
        load_run_recipe(str(path), [override], budget="1h")


def test_a_budget_without_anything_to_choose_is_refused(path: Path) -> None:
    with pytest.raises(UsageError, match=r"quickstart has defaults: fixed, so that .*; remove the key from a copy"):
        load_run_recipe("quickstart", budget="1h")
    path.write_text(path.read_text() + "training: {max_updates: 5}\n")
    with pytest.raises(UsageError, match=r"toy states training\.max_updates, so that"):
        load_run_recipe(str(path), budget="1h")


@pytest.mark.whole
def test_a_started_training_keeps_its_choices(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(path.read_text() + TINY)
    folder = path.parent / "run"
    monkeypatch.setattr("mtkit.recipe.defaults.schedule.MIN_UPDATES", 4)
    recipe = load_run_recipe(str(path), SHORT, run_dir=folder)
    display = RecordingDisplay()
    stages.train(recipe, run_dir=folder, display=display)
    assert display.names.count("chosen") == len(describe_choices(recipe))
    monkeypatch.setattr("mtkit.recipe.defaults.schedule.RATE_TIMES_WIDTH", 0.1)  # another version, another machine
    other = load_recipe(str(path), SHORT)
    assert other.training.optimiser != recipe.training.optimiser
    again = load_run_recipe(str(path), SHORT, run_dir=folder)
    assert again == recipe
    assert "already finished" in stages.train(again, run_dir=folder).lines[0]
    fresh = load_run_recipe(str(path), SHORT, run_dir=folder, fresh=True)
    assert fresh.training.optimiser == other.training.optimiser


@pytest.mark.whole
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("2m", "3m", "for 2m"),
        pytest.param(None, "2m", "without a budget", marks=pytest.mark.whole),
        pytest.param("2m", "best", "for 2m", marks=pytest.mark.whole),
    ],
)
def test_another_budget_for_a_started_training_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, first: str | None, second: str, words: str
) -> None:
    path.write_text(path.read_text() + TINY)
    monkeypatch.setattr("mtkit.recipe.defaults.schedule.MIN_UPDATES", 4)
    run_dir, keys = path.parent / "run", ["training.validate_every=100"]
    stages.train(load_run_recipe(str(path), keys, run_dir=run_dir, budget=first), run_dir=run_dir)
    with pytest.raises(UsageError, match=f"--budget {second}: the training in .*run was planned {words}; omit"):
        load_run_recipe(str(path), keys, run_dir=run_dir, budget=second)
    load_run_recipe(str(path), keys, run_dir=run_dir, budget=first)
    load_run_recipe(str(path), keys, run_dir=run_dir, budget=second, fresh=True)


def test_a_budget_that_preparing_took_is_named_and_nothing_is_lost(path: Path) -> None:
    path.write_text(path.read_text() + TINY)
    folder = path.parent / "run"
    with pytest.raises(
        UsageError, match=r"training\.budget_hours: .* spent before the first update, so that none fits"
    ):
        stages.train(load_recipe(str(path), ["training.budget_hours=1e-9"]), run_dir=folder)
    assert not (folder / "model").exists()
    words = ["training.budget_hours=5", "training.max_updates=2"]
    assert stages.train(load_recipe(str(path), words), run_dir=folder).content["train"]["updates"] == 2


def test_training_rates_count_the_tokens_of_both_sides(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe(str(path), ["training.batch_tokens=120"])  # 4 sentences of 30 tokens
    monkeypatch.setattr(estimate, "has_bf16", lambda device: True)
    seconds = {"float32": 2.0, "bf16": 0.5}
    monkeypatch.setattr(TrialTraining, "seconds_per_update", lambda trial: seconds[trial.learner.precision.name])
    assert estimate.training_rates(recipe) == {"float32": 2 * 120 / 2.0, "bf16": 2 * 120 / 0.5}


@pytest.mark.whole
@pytest.mark.parametrize(("kind", "decays"), [("linear", True), ("constant", False)])
def test_the_learning_rate_falls_with_the_time_that_is_left(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, decays: bool
) -> None:
    """A clock that moves 5 seconds when it is read: the budget is spent after a few of 1,000 updates."""
    path.write_text(path.read_text() + TINY)
    ticks = itertools.count(step=5.0)
    clock = SimpleNamespace(perf_counter=lambda: next(ticks), process_time=time.process_time)
    monkeypatch.setattr("mtkit.training.monitoring.meter.time", clock)
    words = ["training.max_updates=1000", "training.budget_hours=0.5", "training.log_every=1"]
    schedule = f"training.schedule={{kind: {kind}, warmup: 0}}"
    folder = path.parent / "run"
    report = stages.train(load_recipe(str(path), [*words, schedule]), run_dir=folder)
    assert report.content["train"]["reason"] == "budget_hours"
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().rstrip("\n").split("\n")]
    rates = [event["learning_rate"] for event in events if event["event"] == "train"]
    assert 3 < len(rates) < 50
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == (0 if decays else rates[0])
    again = stages.train(load_recipe(str(path), [*words, schedule]), run_dir=folder)
    assert "already finished" in again.lines[0]


def test_a_budget_that_is_long_enough_keeps_the_size(path: Path, monkeypatch) -> None:
    of_text = choose_module.corpus_statistics
    monkeypatch.setattr(
        choose_module, "corpus_statistics", lambda src, tgt: replace(of_text(src, tgt), pairs=5_000_000)
    )
    monkeypatch.setattr("mtkit.hardware.has_gpu", lambda: True)
    monkeypatch.setattr(choices, "seconds_per_update", lambda recipe, limit: 1e-3)
    whole, limited = (load_run_recipe(str(path), budget=budget) for budget in ("best", "1000d"))
    assert whole.chosen["model.d_model"].startswith("base: ")  # medium has the same width
    assert limited.model == whole.model
