"""Memory that does not suffice: scripted models say so, as there is no GPU here that would."""

import json
import signal
from dataclasses import replace

import pytest
import torch

from mtkit.errors import Interrupted, TrainingError
from mtkit.training.learner import build_learner
from mtkit.training.loop import gradients
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.robustness.oom import Room
from tests.unit.training.test_training import equal, events, signal_at
from tests.unit.training.toy_training import TeacherForced, ToyModel, toy_batch, toy_config, toy_train


class Narrow(ToyModel):
    """Has memory for some sentences only; `backwards` says that it is noticed on the way back."""

    def __init__(self, most, *, backwards=False, dropout=0.0):
        super().__init__(dropout)
        self.most, self.backwards = most, backwards
        self.seen = []

    def hidden(self, source, target):
        states = super().hidden(source, target)
        if not self.training:
            return states
        self.seen.append(source.ids.size(0))
        if source.ids.size(0) <= self.most:
            return states
        if not self.backwards:
            raise torch.OutOfMemoryError("no memory")
        states.register_hook(fail)
        return states


def fail(gradient):
    raise torch.OutOfMemoryError("no memory on the way back")


def learner_of(model, *, can_cut=True, **keys):
    config = toy_config(**keys)
    learner = build_learner(model, CrossEntropy(TeacherForced(), 0.1), config=config)
    return replace(learner, room=Room(can_cut=can_cut))


def narrow(most, **keys):
    torch.manual_seed(1)
    return Narrow(most, **keys)


@pytest.mark.parametrize("backwards", [False, True])
def test_the_same_gradient_in_parts(backwards):
    batches = [toy_batch(1, 3), toy_batch(2, 0), toy_batch(3, 9)]
    whole, cut = learner_of(narrow(9)), learner_of(narrow(3, backwards=backwards))
    expected, found = (gradients(learner, batches, 1) for learner in (whole, cut))
    assert cut.model.seen == [3, 9, 3, 3, 3, 3]
    assert found.tokens == expected.tokens
    assert found.mean() == pytest.approx(expected.mean(), rel=1e-6)
    for a, b in zip(whole.model.parameters(), cut.model.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-7)


def test_a_batch_that_was_never_cut_draws_as_ever():
    """The parts of a micro-batch have seeds of their own; a whole one keeps that of its number."""
    batches = [toy_batch(1, 2), toy_batch(3, 9)]
    cut, first = learner_of(narrow(4, dropout=0.3)), learner_of(narrow(9, dropout=0.3))
    cut.room.places = 4 * 5
    found = [float(losses.sum.detach()) for losses in cut.losses(batches, 1)]
    assert found[0] == float(next(iter(first.losses(batches, 1))).sum.detach())
    assert len(found) == 4


def test_one_sentence_cannot_be_cut():
    with pytest.raises(TrainingError, match="a single sentence of 5 tokens does not fit into memory"):
        gradients(learner_of(narrow(0)), [toy_batch(1, 4)], 1)


@pytest.mark.parametrize("fault", [torch.OutOfMemoryError("x"), MemoryError(), RuntimeError("DefaultCPUAllocator: x")])
def test_on_a_cpu_training_stops_and_says_what_to_do(tmp_path, fault):
    class Faulty(ToyModel):
        def hidden(self, source, target):
            raise fault

    config = toy_config()
    with pytest.raises(TrainingError, match=r"out of memory; lower training\.batch_tokens .*untouched") as info:
        toy_train(tmp_path, config, learner=learner_of(Faulty(), can_cut=False))
    assert info.value.exit_code == 70


def test_other_faults_are_not_taken_for_it(tmp_path):
    class Faulty(ToyModel):
        def hidden(self, source, target):
            raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        toy_train(tmp_path, toy_config(), learner=learner_of(Faulty()))


def test_what_is_cut_stays_cut_after_a_stop(tmp_path):
    config = toy_config(max_updates=12)
    whole = toy_train(tmp_path / "whole", config, learner=learner_of(narrow(3, dropout=0.3)))
    (event,) = events(tmp_path / "whole", "out_of_memory")
    assert event["places"] == 2 * 5
    with pytest.raises(Interrupted):
        toy_train(
            tmp_path / "cut",
            config,
            learner=learner_of(narrow(3, dropout=0.3)),
            loader=signal_at(7, signal.SIGTERM),
        )
    again = learner_of(narrow(3, dropout=0.3))
    assert equal(whole.weights, toy_train(tmp_path / "cut", config, learner=again).weights)
    assert max(again.model.seen) <= 3  # nothing had to fail again


def test_a_checkpoint_from_before_there_was_room_loads(tmp_path):
    learner = learner_of(narrow(9))
    numbers = json.loads(json.dumps(learner.numbers()))
    del numbers["room"]
    learner.load_numbers(numbers)
    assert learner.room.places is None
