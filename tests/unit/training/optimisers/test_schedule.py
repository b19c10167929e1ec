import math

import pytest

from mtkit.config import construct
from mtkit.training.optimisers.schedule import (
    ConstantConfig,
    CosineConfig,
    InverseSqrtConfig,
    LinearConfig,
    PlateauConfig,
    WarmupStableDecayConfig,
)

UPDATES = [1, 2, 50, 99, 100, 101, 300, 999, 1000, 1500]


@pytest.mark.parametrize("update", UPDATES)
def test_inverse_sqrt_is_the_papers_formula(update):
    paper = 512**-0.5 * min(update**-0.5, update * 100**-1.5)
    assert construct(InverseSqrtConfig(warmup=100, d_model=512), 1000)(update) == pytest.approx(paper, rel=1e-12)
    ours = construct(InverseSqrtConfig(warmup=100), 1000)(update)
    assert ours == pytest.approx(update / 100 if update < 100 else math.sqrt(100 / update), rel=1e-12)


@pytest.mark.parametrize("update", UPDATES)
def test_cosine_is_loshchilovs_formula(update):
    share = min(1, (update - 100) / 900)
    wanted = update / 100 if update < 100 else 0.1 + 0.5 * 0.9 * (1 + math.cos(math.pi * share))
    assert construct(CosineConfig(warmup=100, final=0.1), 1000)(update) == pytest.approx(wanted, abs=1e-12)


def test_linear_rises_to_one_and_falls_to_zero():
    schedule = construct(LinearConfig(warmup=4), 8)
    assert [schedule(update) for update in range(1, 10)] == [0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]


def test_constant_stays():
    assert [construct(ConstantConfig(warmup=2), 5)(update) for update in (1, 2, 3, 99)] == [0.5, 1, 1, 1]
    assert construct(ConstantConfig(), 5)(1) == 1


def test_warmup_stable_decay_has_three_parts():
    schedule = construct(WarmupStableDecayConfig(warmup=10, decay=0.25), 100)
    assert schedule(5) == 0.5
    assert {schedule(update) for update in range(10, 76)} == {1.0}
    assert schedule(84) == pytest.approx(1 - math.sqrt(9 / 25))
    assert schedule(100) == 0


def test_plateau_shrinks_after_patience_and_remembers():
    config = PlateauConfig(warmup=0, shrink=0.5, patience=2, final=0.2)
    schedule = construct(config, 100)
    factors = []
    for value in [3.0, 2.0, 2.0, 2.5, 1.9, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]:
        schedule.step_on_metric(value)
        factors.append(schedule(7))
        other = construct(config, 100)
        other.load(schedule.state())
        schedule = other
    assert factors == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2]
