"""A training that runs away goes back to its best checkpoint, takes smaller steps, and can be stopped at any time."""

import os
import signal

import pytest
import torch

from mtkit.errors import Interrupted, TrainingError
from mtkit.training.checkpoints.averaging import CheckpointAverageConfig, average_checkpoints, translation_weights
from mtkit.training.checkpoints.checkpoint import list_checkpoints, read_state
from mtkit.training.checkpoints.writer import KeepConfig
from mtkit.training.learner import build_learner
from mtkit.training.monitoring.validation import Validation
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.robustness.divergence import Course, DivergenceConfig
from tests.unit.training.test_nonfinite import poisoned
from tests.unit.training.test_training import equal, events, signal_at
from tests.unit.training.toy_training import TeacherForced, ToyModel, toy_config, toy_train

CONFIG = DivergenceConfig(loss_factor=2.0, updates=3, nll_factor=1.5, shrink=0.5, most=2)


def course_of(*losses):
    course = Course()
    for loss in losses:
        course = course.learnt(loss, CONFIG)
    return course


def test_a_few_hard_batches_are_no_divergence():
    assert not course_of(1.0, 5.0, 5.0, 1.0, 5.0, 5.0).has_diverged(CONFIG)
    assert course_of(1.0, 5.0, 5.0, 5.0).has_diverged(CONFIG)


def test_the_average_follows_a_loss_that_rises_slowly():
    losses = [1.0 + update / 200 for update in range(600)]
    assert not course_of(*losses).has_diverged(CONFIG)
    assert course_of(*losses).average == pytest.approx(losses[-1] - 0.5, abs=0.01)  # it is a hundred updates late


def test_a_validation_is_held_against_the_best():
    course = Course().judged(2.0, CONFIG).judged(1.0, CONFIG)
    assert not course.judged(1.5, CONFIG).has_diverged(CONFIG)
    assert course.judged(1.6, CONFIG).has_diverged(CONFIG)


class Raised(CrossEntropy):
    """The loss of some updates is ten times what it is."""

    def __init__(self, updates):
        super().__init__(TeacherForced(), 0.1)
        self.updates, self.update = updates, 0

    def set_update(self, update):
        self.update = update

    def __call__(self, model, batch):
        losses = super().__call__(model, batch)
        if self.update not in self.updates:
            return losses
        return type(losses)(10 * losses.sum, losses.tokens)


def raised(config, updates):
    torch.manual_seed(config.seed)
    return build_learner(ToyModel(), Raised(updates), config=config)


def by_update(model, update):
    return Validation(float(100 - update))


def test_it_goes_back_to_the_best_and_on_with_a_lower_rate(tmp_path):
    config = toy_config(on_divergence=CONFIG)
    toy_train(tmp_path, config, learner=raised(config, range(8, 11)), validate=by_update)
    (event,) = events(tmp_path, "diverged")
    assert (event["update"], event["rate_share"]) == (10, 0.5)
    assert event["checkpoint"].endswith("update-00000006")
    rates = {record["update"]: record["rate"] for record in events(tmp_path, "train")}
    assert rates[9] == pytest.approx(rates[3] * 3)  # the warm-up as it was
    assert rates[12] == pytest.approx(rates[3] * 4 / 2)


def test_what_was_given_up_is_forgotten(tmp_path):
    """At update 12 the validation is bad: its weights are those of update 6 again, and it is not among the best."""
    config = toy_config(on_divergence=CONFIG, keep=KeepConfig(last=9, best=3))
    toy_train(tmp_path, config, validate=lambda model, update: Validation({6: 1.0, 12: 1.6}.get(update, 1.2)))
    saved = list_checkpoints(tmp_path / "checkpoints")
    assert equal(translation_weights(saved[6]), translation_weights(saved[12]))
    assert [scored["update"] for scored in read_state(saved[16])["progress"]["ranking"]["best"]] == [6]


def test_what_was_given_up_is_in_no_average(tmp_path):
    """At update 14 it goes back to update 6: the regular checkpoints of 8 and 12 are of the way that was left."""
    config = toy_config(max_updates=16, on_divergence=CONFIG, average=CheckpointAverageConfig(checkpoints=4))
    result = toy_train(
        tmp_path,
        config,
        learner=raised(config, range(12, 15)),
        validate=lambda model, update: Validation({6: 1.0}.get(update, 1.2)),
    )
    (event,) = events(tmp_path, "diverged")
    assert (event["update"], event["checkpoint"][-2:]) == (14, "06")
    saved = list_checkpoints(tmp_path / "checkpoints")
    assert list(saved) == [4, 6, 16]
    assert equal(result.weights, average_checkpoints([saved[4], saved[16]]))


def test_cut_off_in_the_validation_that_finds_it_the_average_is_the_same(tmp_path):
    """It is of updates 9, 12 and 18; that of 15, which is given up for 12, must not have cost the one of 9."""
    average = CheckpointAverageConfig(checkpoints=3)
    config = toy_config(max_updates=18, checkpoint_every=3, on_divergence=CONFIG, average=average)

    def judge(model, update):
        return Validation({6: 1.1, 12: 1.0, 18: 1.6}[update])

    def cut_off(model, update):
        if update == 18:
            os.kill(os.getpid(), signal.SIGTERM)
        return judge(model, update)

    whole = toy_train(tmp_path / "whole", config, validate=judge)
    with pytest.raises(Interrupted):
        toy_train(tmp_path / "cut", config, validate=cut_off)
    assert equal(whole.weights, toy_train(tmp_path / "cut", config, validate=judge).weights)


def test_too_often_or_nowhere_to_go(tmp_path):
    config = toy_config(on_divergence=CONFIG)
    with pytest.raises(TrainingError, match=r"update 16: training has diverged, having gone back 2 times .*\nlower"):
        toy_train(tmp_path / "a", config, learner=raised(config, range(8, 17)))
    with pytest.raises(TrainingError, match=r"update 4: .* no checkpoint from before"):
        toy_train(tmp_path / "b", config, learner=raised(config, range(2, 5)))


def test_batches_that_are_never_finite_are_a_reason_too(tmp_path):
    config = toy_config(on_divergence=CONFIG, on_nonfinite="skip", max_skips=2)
    result = toy_train(tmp_path, config, learner=poisoned(config, 9, 9, 9))  # of each draw both micro-batches
    assert result.update == 24
    assert [event["update"] for event in events(tmp_path, "diverged")] == [8]


@pytest.mark.parametrize("draw", [9, 10, 11, 14])
def test_stopped_anywhere_it_is_the_same_training(tmp_path, draw):
    config = toy_config(on_divergence=CONFIG)
    whole = toy_train(tmp_path / "whole", config, learner=raised(config, range(8, 11)))
    with pytest.raises(Interrupted):
        toy_train(
            tmp_path / "cut",
            config,
            learner=raised(config, range(8, 11)),
            loader=signal_at(draw, signal.SIGTERM),
        )
    again = toy_train(tmp_path / "cut", config, learner=raised(config, range(8, 11)))
    assert equal(whole.weights, again.weights)
    assert [event["update"] for event in events(tmp_path / "cut", "diverged")] == [10]


def test_where_it_goes_back_to_does_not_depend_on_where_it_was_stopped(tmp_path):
    """Before the first validation: to update 5, though the one that was stopped has a checkpoint of update 6 too."""
    config = toy_config(on_divergence=CONFIG, validate_every=20, checkpoint_every=5)
    whole = toy_train(tmp_path / "whole", config, learner=raised(config, range(7, 10)))
    with pytest.raises(Interrupted):
        toy_train(tmp_path / "cut", config, learner=raised(config, range(7, 10)), loader=signal_at(6, signal.SIGTERM))
    again = toy_train(tmp_path / "cut", config, learner=raised(config, range(7, 10)))
    found = [events(tmp_path / name, "diverged")[0]["checkpoint"][-8:] for name in ("whole", "cut")]
    assert found == ["00000005"] * 2
    assert equal(whole.weights, again.weights)
