import pytest

from mtkit.training.config import DivergenceConfig
from mtkit.training.progress import LossTrend

CONFIG = DivergenceConfig(loss_factor=2.0, updates=3, nll_factor=1.5, lr_shrink=0.5, max_recoveries=2)


def trend_of(*losses):
    trend = LossTrend()
    for loss in losses:
        trend = trend.after_update(loss, CONFIG)
    return trend


def test_a_few_hard_batches_are_no_divergence():
    assert not trend_of(1.0, 5.0, 5.0, 1.0, 5.0, 5.0).has_diverged(CONFIG)
    assert trend_of(1.0, 5.0, 5.0, 5.0).has_diverged(CONFIG)


def test_the_average_follows_a_loss_that_rises_slowly():
    losses = [1.0 + update / 200 for update in range(600)]
    assert not trend_of(*losses).has_diverged(CONFIG)
    assert trend_of(*losses).average_loss == pytest.approx(losses[-1] - 0.5, abs=0.01)  # it lags by 100 updates


def test_a_validation_is_compared_with_the_best():
    trend = LossTrend().after_validation(2.0, CONFIG).after_validation(1.0, CONFIG)
    assert not trend.after_validation(1.5, CONFIG).has_diverged(CONFIG)
    assert trend.after_validation(1.6, CONFIG).has_diverged(CONFIG)


def test_without_a_configuration_the_trend_does_not_change():
    assert LossTrend().after_update(1.0, None) == LossTrend().after_validation(1.0, None) == LossTrend()
