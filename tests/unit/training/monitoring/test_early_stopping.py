from dataclasses import replace

import pytest

from mtkit.training.monitoring.validation import Validation
from mtkit.training.progress import BestUpdates, Progress, ScoredUpdate
from mtkit.training.time_budget import BudgetProgress
from tests.toy.training import toy_config


def ranking_of(values, keep=2):
    ranking = BestUpdates()
    for number, value in enumerate(values, 1):
        ranking = ranking.add(ScoredUpdate(value, number), keep=keep)
    return ranking


def test_the_best_come_first_and_of_equals_the_earlier():
    assert ranking_of([3.0, 1.0, 2.0, 1.0]).updates() == [2, 4]
    assert ranking_of([3.0, 1.0, 2.0]).updates() == [2, 3]


def test_patience_counts_validations_without_a_better_one():
    assert not ranking_of([3.0, 2.0, 2.0]).should_stop(2)
    assert ranking_of([3.0, 2.0, 2.0, 2.5]).should_stop(2)
    assert not ranking_of([3.0, 2.0, 2.0, 1.5]).should_stop(2)
    assert not ranking_of([1.0] * 99).should_stop(None)


def test_training_ends_at_the_first_limit():
    config = toy_config(max_updates=9, patience=2)
    assert Progress(update=8, best_updates=BestUpdates(since_best=1)).end_reason(config) is None
    assert Progress(update=8, best_updates=BestUpdates(since_best=2)).end_reason(config) == "early_stopping"
    assert Progress(update=9).end_reason(config) == "max_updates"
    assert Progress(update=9).end_reason(replace(config, max_epochs=3)) == "max_epochs"
    assert Progress(update=8, budget=BudgetProgress(share=0.9)).end_reason(config) is None
    assert Progress(update=8, budget=BudgetProgress(share=1.0)).end_reason(config) == "budget_hours"


def test_lower_is_better_for_both_metrics():
    validation = Validation(nll=2.0, bleu=30.0)
    assert (validation.value("nll"), validation.value("bleu")) == (2.0, -30.0)
    with pytest.raises(ValueError, match="no BLEU"):
        Validation(nll=2.0).value("bleu")
