"""Losses and gradients that are not finite: nothing happens to the weights, and the training stops or goes on."""

import math
import signal
from dataclasses import replace

import pytest
import torch

from mtkit.corpus.order.loader import Position
from mtkit.errors import Interrupted, TrainingError
from mtkit.models.interface import Losses
from mtkit.training.checkpoints.checkpoint import list_checkpoints, read_state
from mtkit.training.learner import build_learner
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.robustness.nonfinite import read_evidence
from tests.unit.training.test_training import equal, events, signal_at
from tests.unit.training.toy_training import TeacherForced, ToyLoader, ToyModel, toy_config, toy_train


class Poisoned(CrossEntropy):
    """NaN at the given updates, once each."""

    def __init__(self, *updates):
        super().__init__(TeacherForced(), 0.1)
        self.updates = list(updates)
        self.update = 0

    def set_update(self, update):
        self.update = update

    def __call__(self, model, batch):
        losses = super().__call__(model, batch)
        if self.update in self.updates:
            self.updates.remove(self.update)
            return Losses(losses.sum * math.nan, losses.tokens)
        return losses


def poisoned(config, *updates):
    torch.manual_seed(config.seed)
    return build_learner(ToyModel(), Poisoned(*updates), config=config)


def test_nan_stops_before_the_update_and_keeps_the_evidence(tmp_path):
    config = toy_config()
    learner, before = poisoned(config, 6), {}
    learner.objective.set_update = lambda update: (
        setattr(learner.objective, "update", update),
        before.update({n: p.detach().clone() for n, p in learner.model.named_parameters()}),
    )
    with pytest.raises(
        TrainingError, match=r"update 6: loss nan, gradient norm nan; .*\nsamples \d+, .*\nlower"
    ) as info:
        toy_train(tmp_path, config, learner=learner)
    assert info.value.exit_code == 70
    assert all(torch.equal(p, before[name]) for name, p in learner.model.named_parameters())
    assert list(list_checkpoints(tmp_path / "checkpoints")) == [4]
    evidence = read_evidence(tmp_path / "nonfinite/update-00000006-0")
    drawn = next(ToyLoader().updates(Position(0, 5)))
    assert all(torch.equal(a.source.ids, b.source.ids) for a, b in zip(evidence.batches, drawn.batches, strict=True))
    assert evidence.facts["samples"] == [int(s) for batch in drawn.batches for s in batch.samples]


def test_nan_can_be_skipped_but_not_for_ever(tmp_path):
    config = toy_config(on_nonfinite="skip", max_skips=2)
    result = toy_train(tmp_path / "a", config, learner=poisoned(config, 6, 9))
    assert result.update == 24
    assert all(w.isfinite().all() for w in result.weights.values())
    assert [record["update"] for record in events(tmp_path / "a", "nonfinite")] == [6, 9]
    with pytest.raises(TrainingError, match="nor were the 1 before"):
        toy_train(tmp_path / "b", config, learner=poisoned(config, 6, 6, 6, 6))


def test_skipping_then_resuming_is_not_skipping_then_going_on(tmp_path):
    config = toy_config(on_nonfinite="skip")
    whole = toy_train(tmp_path / "a", config, learner=poisoned(config, 6))
    stop = signal_at(9, signal.SIGTERM)
    with pytest.raises(Interrupted):
        toy_train(tmp_path / "b", config, learner=poisoned(config, 6), loader=stop)
    assert equal(whole.weights, toy_train(tmp_path / "b", config, learner=poisoned(config)).weights)


def test_a_signal_and_the_end_of_hours_are_heeded_amidst_batches_that_are_left_out(tmp_path):
    config = toy_config(on_nonfinite="skip", max_skips=99)
    never = [6] * 200
    with pytest.raises(Interrupted, match="interrupted after update 5"):
        toy_train(tmp_path, config, learner=poisoned(config, *never), loader=signal_at(9, signal.SIGTERM))
    assert len(events(tmp_path, "nonfinite")) == 4  # draws 6 to 9
    state = read_state(tmp_path / "checkpoints/update-00000005")
    assert state["progress"]["position"] == {"window": 0, "update": 9}
    late = toy_config(on_nonfinite="skip", max_skips=99, max_hours=1e-9)
    assert (toy_train(tmp_path, late, learner=poisoned(late, *never)).reason) == "max_hours"
    with pytest.raises(Interrupted, match="interrupted after update 0"):
        toy_train(tmp_path / "new", config, learner=poisoned(config, *[1] * 200), loader=signal_at(2, signal.SIGTERM))
    assert list_checkpoints(tmp_path / "new/checkpoints") == {}


def test_a_scaler_goes_on_after_a_loss_that_was_left_out(tmp_path):
    config = toy_config(on_nonfinite="skip")
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    result = toy_train(tmp_path, config, learner=replace(poisoned(config, 6), scaler=scaler))
    assert result.update == 24
    assert scaler.get_scale() == 8.0  # the loss was at fault, not the scale
