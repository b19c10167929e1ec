"""Rollback to the best checkpoint, with a lower learning rate, in trainings that may be interrupted at any time."""

import os
import shutil
import signal

import pytest

from mtkit.errors import ComputeError, Interrupted
from mtkit.training.checkpoints.averaging import average_checkpoints, translation_weights
from mtkit.training.checkpoints.checkpoint import list_checkpoints, read_state
from mtkit.training.config import CheckpointAverageConfig, DivergenceConfig, RetentionConfig
from mtkit.training.monitoring.validation import Validation
from mtkit.training.objectives.cross_entropy import CrossEntropy
from tests.toy.training import (
    PoisonedCrossEntropy,
    TeacherForced,
    equal,
    events,
    signal_at,
    toy_config,
    toy_learner,
    toy_train,
)

CONFIG = DivergenceConfig(loss_factor=2.0, updates=3, nll_factor=1.5, lr_shrink=0.5, max_recoveries=2)


class RaisedCrossEntropy(CrossEntropy):
    """Cross-entropy, multiplied by ten at some updates."""

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
    return toy_learner(config, objective=RaisedCrossEntropy(updates))


def falling_nll(model, update):
    return Validation(float(100 - update))


def test_rollback_restores_the_best_checkpoint_and_lowers_the_learning_rate(tmp_path):
    config = toy_config(on_divergence=CONFIG)
    toy_train(tmp_path, config, learner=raised(config, range(8, 11)), validate=falling_nll)
    (event,) = events(tmp_path, "diverged")
    assert (event["update"], event["lr_factor"]) == (10, 0.5)
    assert event["checkpoint"].endswith("update-00000006")
    rates = {record["update"]: record["learning_rate"] for record in events(tmp_path, "train")}
    assert rates[9] == pytest.approx(rates[3] * 3)  # the warm-up, unchanged
    assert rates[12] == pytest.approx(rates[3] * 4 / 2)


def test_the_diverged_validation_is_not_among_the_best(tmp_path):
    """At update 12 validation diverges: its checkpoint has the weights of update 6, and no rank."""
    config = toy_config(on_divergence=CONFIG, keep=RetentionConfig(last=9, best=3))
    toy_train(tmp_path, config, validate=lambda model, update: Validation({6: 1.0, 12: 1.6}.get(update, 1.2)))
    saved = list_checkpoints(tmp_path / "checkpoints")
    assert equal(translation_weights(saved[6]), translation_weights(saved[12]))
    assert [scored["update"] for scored in read_state(saved[16])["progress"]["best_updates"]["ranked"]] == [6]


def test_removed_checkpoints_are_in_no_average(tmp_path):
    """At update 14 it rolls back to update 6, which removes the regular checkpoints of 8 and 12."""
    config = toy_config(max_updates=16, on_divergence=CONFIG, checkpoint_average=CheckpointAverageConfig(count=4))
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


def test_interruption_in_the_validation_that_diverges_does_not_change_the_average(tmp_path):
    """The average is of updates 9, 12 and 18: saving 15, which is rolled back to 12, must not remove 9."""
    average = CheckpointAverageConfig(count=3)
    config = toy_config(max_updates=18, checkpoint_every=3, on_divergence=CONFIG, checkpoint_average=average)

    def validate(model, update):
        return Validation({6: 1.1, 12: 1.0, 18: 1.6}[update])

    def interrupted(model, update):
        if update == 18:
            os.kill(os.getpid(), signal.SIGTERM)
        return validate(model, update)

    whole = toy_train(tmp_path / "whole", config, validate=validate)
    with pytest.raises(Interrupted):
        toy_train(tmp_path / "interrupted", config, validate=interrupted)
    assert equal(whole.weights, toy_train(tmp_path / "interrupted", config, validate=validate).weights)


def test_training_stops_after_max_recoveries_or_without_a_checkpoint(tmp_path):
    config = toy_config(on_divergence=CONFIG)
    with pytest.raises(ComputeError, match=r"update 16: training has diverged after 2 rollbacks .*\nlower"):
        toy_train(tmp_path / "a", config, learner=raised(config, range(8, 17)))
    with pytest.raises(ComputeError, match=r"update 4: .* there is no earlier checkpoint"):
        toy_train(tmp_path / "b", config, learner=raised(config, range(2, 5)))


def test_too_many_skips_in_a_row_roll_back_too(tmp_path):
    config = toy_config(on_divergence=CONFIG, on_nonfinite="skip", max_skips=2)
    result = toy_train(tmp_path, config, learner=toy_learner(config, objective=PoisonedCrossEntropy(9, 9, 9)))
    assert result.update == 24
    assert [event["update"] for event in events(tmp_path, "diverged")] == [8]


def test_a_best_checkpoint_before_skipped_updates_is_the_one_to_return_to(tmp_path):
    """Its weights are good: the updates after it were not applied."""
    config = toy_config(on_divergence=CONFIG, on_nonfinite="skip", max_skips=2, keep=RetentionConfig(last=1))
    poison = (7, 7, 7)  # two batches of the first update, one of the second

    def train(folder):
        learner = toy_learner(config, objective=PoisonedCrossEntropy(*poison))
        return toy_train(folder, config, learner=learner, validate=lambda model, update: Validation(1 + update / 100))

    whole = train(tmp_path / "whole")
    (event,) = events(tmp_path / "whole", "diverged")
    assert (event["update"], event["checkpoint"][-2:]) == (6, "06")
    assert whole.best.update == 6
    saved = list_checkpoints(tmp_path / "whole" / "checkpoints")[6]
    assert equal(whole.weights, translation_weights(saved))
    # killed after the rollback: the same updates are skipped again
    copied = tmp_path / "killed" / "checkpoints" / saved.name
    shutil.copytree(saved, copied)
    train(tmp_path / "killed")
    last = [list_checkpoints(tmp_path / name / "checkpoints")[24] for name in ("whole", "killed")]
    assert equal(*map(translation_weights, last))


@pytest.mark.whole
@pytest.mark.parametrize("update", [9, 10, 11, 14])
def test_resuming_around_a_rollback_gives_the_same_bits(tmp_path, update):
    config = toy_config(on_divergence=CONFIG)
    whole = toy_train(tmp_path / "whole", config, learner=raised(config, range(8, 11)))
    with pytest.raises(Interrupted):
        toy_train(
            tmp_path / "interrupted",
            config,
            learner=raised(config, range(8, 11)),
            loader=signal_at(update, signal.SIGTERM),
        )
    again = toy_train(tmp_path / "interrupted", config, learner=raised(config, range(8, 11)))
    assert equal(whole.weights, again.weights)
    assert [event["update"] for event in events(tmp_path / "interrupted", "diverged")] == [10]


def test_an_interruption_does_not_change_the_checkpoint_that_is_restored(tmp_path):
    """Before the first validation: update 5, although the interrupted training has a checkpoint of update 6 too."""
    config = toy_config(on_divergence=CONFIG, validate_every=20, checkpoint_every=5)
    whole = toy_train(tmp_path / "whole", config, learner=raised(config, range(7, 10)))
    with pytest.raises(Interrupted):
        toy_train(
            tmp_path / "interrupted",
            config,
            learner=raised(config, range(7, 10)),
            loader=signal_at(6, signal.SIGTERM),
        )
    again = toy_train(tmp_path / "interrupted", config, learner=raised(config, range(7, 10)))
    restored = [events(tmp_path / name, "diverged")[0]["checkpoint"][-8:] for name in ("whole", "interrupted")]
    assert restored == ["00000005"] * 2
    assert equal(whole.weights, again.weights)
