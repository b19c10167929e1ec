"""Rules of fine-tuning: the search for a rate, the share of a mixture, its weights, the lines that changed."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mtkit.errors import RecipeError, UsageError
from mtkit.finetuning.choice import choose, interpolate
from mtkit.finetuning.learning_rate import MAX_TRIALS, RATE_TIMES_WIDTH, STEP, RangeTest, search_rates
from mtkit.finetuning.settings import TrainingPlan, course_of, fit_updates, unstated_reasons, with_course
from mtkit.recipe.defaults.facts import NO_LIMITS, parse_budget
from mtkit.recipe.located import with_location
from mtkit.recipe.tree import apply_overrides
from mtkit.text.source_prefix import SourcePrefix
from tests.toy.runs import toy, write_all


@pytest.mark.parametrize("best", [-3, -2, 0, 1, 3])
def test_the_search_finds_the_lowest_loss(best: int) -> None:
    def loss(rate: float) -> float:
        power = round(math.log(rate / 1e-3, STEP))
        return math.inf if power > best + 2 else abs(power - best)

    found = dict(search_rates(loss, 1e-3))
    assert min(found, key=lambda rate: found[rate]) == pytest.approx(1e-3 * STEP**best)
    assert len(found) <= MAX_TRIALS


def test_a_search_without_a_finite_loss_ends() -> None:
    assert set(dict(search_rates(lambda rate: math.inf, 1e-3)).values()) == {math.inf}


@pytest.mark.parametrize(
    ("left", "trial", "trials", "rate"),
    [
        (math.inf, 10, 4, 4),  # 1, 2, 4, 8 and no more: the loss rises
        (200, 10, 4, 4),
        (25, 10, 2, 2),
        (19, 10, 0, 1),  # one trial alone tells nothing
        (25, 40, 1, 1),  # slower than expected
    ],
)
def test_a_range_test_has_the_trials_that_a_budget_has_time_for(
    monkeypatch: pytest.MonkeyPatch, left: float, trial: float, trials: int, rate: float
) -> None:
    test, now, notes = RangeTest.__new__(RangeTest), [0.0], list[str]()
    monkeypatch.setattr("mtkit.finetuning.learning_rate.time", SimpleNamespace(perf_counter=lambda: now[0]))
    tried = []

    def loss(rate: float) -> float:
        tried.append(rate)
        now[0] += trial
        return abs(rate - 4)

    sections = {"training": SimpleNamespace(adapter=None), "model": SimpleNamespace(d_model=RATE_TIMES_WIDTH)}
    run = SimpleNamespace(
        recipe=SimpleNamespace(**sections),
        begin=lambda stage, work: None,
        notify=lambda stage, note: notes.append(note),
    )
    vars(test).update(_run=run, _loss=loss, updates=20, _trial_seconds=10.0, _seconds_left=left)
    chosen, reason = test.result()
    assert (chosen, len(tried)) == (rate, trials)
    assert now[0] <= max(left, trial)
    assert notes
    assert reason.startswith("range test of 20" if trials else "a tenth of the rate")


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_general_text_gets_its_share_of_the_tokens(tmp_path: Path, share: float) -> None:
    words = {"own": 39, "general": 9, "general-2": 19}  # of each line, which has one token more
    for text, count in words.items():
        (tmp_path / text).mkdir()
        for lang in ("en", "de"):
            (tmp_path / text / f"train.{lang}").write_text(100 * f"{'dog ' * count}\n")
    metadata: Any = SimpleNamespace(direction=lambda prefix: ("en", "de"))
    general = {text: SourcePrefix() for text in words if text != "own"}
    plan = TrainingPlan(Path(), metadata, tmp_path, general, share, SourcePrefix(), NO_LIMITS)
    tokens = {text: samples * (words[text] + 1) for text, samples in plan.sample_shares().items()}
    for text in general:
        assert tokens[text] / sum(tokens.values()) == pytest.approx(share / len(general), abs=0.02)


def test_a_mixture_keeps_the_general_text() -> None:
    bleu = {0.0: (1, 30), 0.25: (3, 30.5), 0.5: (7, 29.6), 0.75: (9, 29), 1.0: (10, 20)}
    by_set = {share: {"own": own, "general": general} for share, (own, general) in bleu.items()}
    assert [choose(by_set, loss) for loss in (0.0, 0.5, 1.0, 20.0)] == [0.25, 0.5, 0.75, 1.0]


def test_weights_are_interpolated_and_integers_kept() -> None:
    before = {"a": torch.tensor([0.0, 4.0]), "n": torch.tensor([1])}
    mixed = interpolate(before, {"a": torch.tensor([8.0, 0.0]), "n": torch.tensor([2])}, 0.25)
    assert mixed["a"].tolist() == [2.0, 3.0]
    assert mixed["n"].tolist() == [2]


def test_updates_of_a_budget() -> None:
    assert fit_updates(5000, NO_LIMITS, 1e9) == 5000
    assert fit_updates(5000, parse_budget("10m"), 0.42) == 1000
    assert fit_updates(500, parse_budget("10m"), 0.42) == 500
    with pytest.raises(UsageError, match=r"--budget 10m: an update takes 100\.0 s here, so that 4 fit"):
        fit_updates(5000, parse_budget("10m"), 100)


def test_a_budget_keeps_the_limit_and_states_what_is_expected() -> None:
    tree = {"training": {"max_updates": 900, "budget_hours": 0.1}}
    whole, limited = (with_course(tree, 900, expected)["training"] for expected in (900, 300))
    assert whole == {**course_of(900), "budget_hours": 0.1}
    assert limited == {**course_of(300), "budget_hours": 0.1, "max_updates": 900, "budget_updates": 300}


@pytest.mark.parametrize(
    ("overrides", "left"),
    [
        ([], ["batch_tokens", "max_updates", "optimiser.learning_rate"]),
        (["training.max_updates=100", "training.seed=1"], ["batch_tokens", "optimiser.learning_rate"]),
        (["training.optimiser={kind: adam, learning_rate: 1e-2}"], ["batch_tokens", "max_updates"]),
        (["training.optimiser.kind=adafactor"], ["batch_tokens", "max_updates"]),
        (["training={max_updates: 100}"], []),
    ],
)
def test_what_is_stated_has_no_reason(overrides: list[str], left: list[str]) -> None:
    values = {"batch_tokens": 512, "max_updates": 100, "optimiser": {"kind": "adam", "learning_rate": 1e-3}}
    tree = with_location({"training": values}, "finetune.yaml:1", Path())
    reasons = {f"training.{key}": key for key in ("batch_tokens", "max_updates", "optimiser.learning_rate")}
    assert [*unstated_reasons(reasons, apply_overrides(tree, overrides, Path(), [])).values()] == left


@pytest.mark.parametrize("updates", [1, 19, 100, 5000])
def test_a_course_has_validations_and_ends(updates: int) -> None:
    course = course_of(updates)
    assert 1 <= course["validate_every"] <= updates
    assert 0 < course["ema"]["decay"] < 1


def test_a_base_with_two_tokenizers_may_have_one_vocabulary(tmp_path: Path) -> None:
    write_all(tmp_path)
    keys = ["tokenizer.shared=false", "model.tied_embeddings=all"]
    with pytest.raises(RecipeError, match="all needs one vocabulary for both sides"):
        toy(tmp_path, *keys)
    assert toy(tmp_path, *keys, "training.init_from=base").model.tied_embeddings == "all"
