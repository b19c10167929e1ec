"""Out-of-memory handling with models that raise the exception, since tests run without a GPU."""

import signal
from dataclasses import replace

import pytest
import torch

from mtkit.errors import ComputeError, Interrupted
from mtkit.training.learner import build_learner
from mtkit.training.loop import accumulate_gradients
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.oom import MicroBatchSplitter
from tests.toy.training import (
    TeacherForced,
    ToyModel,
    equal,
    events,
    signal_at,
    toy_batch,
    toy_config,
    toy_train,
)


class LimitedModel(ToyModel):
    """Runs out of memory beyond a number of sentences, in the forward or in the backward pass."""

    def __init__(self, max_sentences, *, in_backward=False, dropout=0.0):
        super().__init__(dropout)
        self.max_sentences, self.in_backward = max_sentences, in_backward
        self.batch_sizes = []

    def decode_states(self, source, target):
        states = super().decode_states(source, target)
        if not self.training:
            return states
        self.batch_sizes.append(source.ids.size(0))
        if source.ids.size(0) <= self.max_sentences:
            return states
        if not self.in_backward:
            raise torch.OutOfMemoryError("no memory")
        states.register_hook(fail)
        return states


def fail(gradient):
    raise torch.OutOfMemoryError("no memory in the backward pass")


def learner_of(model, *, can_split=True, **keys):
    config = toy_config(**keys)
    learner = build_learner(model, CrossEntropy(TeacherForced(), 0.1), config=config)
    return replace(learner, splitter=MicroBatchSplitter(can_split=can_split))


def limited(max_sentences, **keys):
    torch.manual_seed(1)
    return LimitedModel(max_sentences, **keys)


@pytest.mark.parametrize("in_backward", [False, True])
def test_splitting_does_not_change_the_gradient(in_backward):
    batches = [toy_batch(1, 3), toy_batch(2, 0), toy_batch(3, 9)]
    whole, split = learner_of(limited(9)), learner_of(limited(3, in_backward=in_backward))
    expected, sums = (accumulate_gradients(learner, batches, 1) for learner in (whole, split))
    assert split.model.batch_sizes == [3, 9, 3, 3, 3, 3]
    assert sums.tokens == expected.tokens
    assert sums.mean() == pytest.approx(expected.mean(), rel=1e-6)
    for a, b in zip(whole.model.parameters(), split.model.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-7)


def test_an_unsplit_micro_batch_keeps_its_seed():
    """Each part of a split micro-batch has a seed of its own."""
    batches = [toy_batch(1, 2), toy_batch(3, 9)]
    split, whole = learner_of(limited(4, dropout=0.3)), learner_of(limited(9, dropout=0.3))
    split.splitter.max_padded_tokens = 4 * 5
    losses = [float(each.sum.detach()) for each in split.losses(batches, 1)]
    assert losses[0] == float(next(iter(whole.losses(batches, 1))).sum.detach())
    assert len(losses) == 4


def test_one_sentence_cannot_be_split():
    with pytest.raises(ComputeError, match="a single sentence of 5 tokens does not fit into memory"):
        accumulate_gradients(learner_of(limited(0)), [toy_batch(1, 4)], 1)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("x"), MemoryError(), RuntimeError("DefaultCPUAllocator: x")])
def test_on_a_cpu_training_stops_with_a_hint(tmp_path, error):
    class FailingModel(ToyModel):
        def decode_states(self, source, target):
            raise error

    config = toy_config()
    message = r"out of memory; lower training\.batch_tokens .*; saved checkpoints are not affected"
    with pytest.raises(ComputeError, match=message) as info:
        toy_train(tmp_path, config, learner=learner_of(FailingModel(), can_split=False))
    assert info.value.exit_code == 70


def test_other_errors_are_not_taken_for_out_of_memory(tmp_path):
    class FailingModel(ToyModel):
        def decode_states(self, source, target):
            raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        toy_train(tmp_path, toy_config(), learner=learner_of(FailingModel()))


def test_the_limit_survives_an_interruption(tmp_path):
    config = toy_config(max_updates=12)
    whole = toy_train(tmp_path / "whole", config, learner=learner_of(limited(3, dropout=0.3)))
    (event,) = events(tmp_path / "whole", "out_of_memory")
    assert event["max_padded_tokens"] == 2 * 5
    with pytest.raises(Interrupted):
        toy_train(
            tmp_path / "interrupted",
            config,
            learner=learner_of(limited(3, dropout=0.3)),
            loader=signal_at(7, signal.SIGTERM),
        )
    again = learner_of(limited(3, dropout=0.3))
    assert equal(whole.weights, toy_train(tmp_path / "interrupted", config, learner=again).weights)
    assert max(again.model.batch_sizes) <= 3  # it did not have to fail again


def test_all_ranks_adopt_the_smallest_limit():
    splitter = MicroBatchSplitter(can_split=True)
    splitter.adopt_smallest([None, None])
    assert splitter.max_padded_tokens is None
    splitter.adopt_smallest([None, 40, 20])
    assert splitter.max_padded_tokens == 20
