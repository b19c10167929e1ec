import math

import pytest
import torch
import torch.nn.functional as F

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.models.interface import Losses
from mtkit.training.learner import build_learner
from mtkit.training.numerics import derive_seed, seed_everything
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.optimisers.config import SGDConfig
from tests.toy.training import TeacherForced, ToyModel, toy_batch, toy_config


class Float64CrossEntropy:
    """The plain form, in the type of the weights."""

    def __call__(self, model, batch):
        logits = model.output(model.decode_states(batch.source, batch.target)[batch.loss_mask])
        target = batch.labels[batch.loss_mask]
        loss = F.cross_entropy(logits, target, reduction="sum", label_smoothing=0.1)
        return Losses(loss, target.numel())

    def set_update(self, update):
        pass


def concatenate(a: Batch, b: Batch) -> Batch:
    def sides(make, one, two):
        return make(*(torch.cat([getattr(one, n), getattr(two, n)]) for n in ("ids", "real", "pos")))

    source, target = sides(Source, a.source, b.source), sides(Target, a.target, b.target)
    others = [torch.cat([getattr(a, n), getattr(b, n)]) for n in ("labels", "loss_mask", "sample_ids")]
    return Batch(source, target, *others)


def learner_of(objective, **keys):
    torch.manual_seed(3)
    keys = {"optimiser": SGDConfig(learning_rate=0.1), "clip_norm": None, **keys}
    return build_learner(ToyModel(0.0).double(), objective, config=toy_config(**keys))


def one_update(learner, batches):
    learner.start_update(1)
    tokens = learner.scored_tokens(batches)
    for losses in learner.losses(batches, 1):
        learner.backward(losses.sum / tokens)
    norm = learner.reduce_and_clip_gradients()
    learner.step(1)
    return norm


def test_gradient_accumulation_equals_one_large_batch_in_float64():
    a, b = toy_batch(1, 3), toy_batch(2, 7)
    apart, together = learner_of(Float64CrossEntropy()), learner_of(Float64CrossEntropy())
    empty = toy_batch(1, 0)
    one_update(apart, [a, empty, b])
    one_update(together, [concatenate(a, b)])
    for x, y in zip(apart.model.parameters(), together.model.parameters(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-14)


def test_clipping_limits_the_norm_of_the_whole_gradient():
    learner = learner_of(Float64CrossEntropy(), clip_norm=1e-3)
    before = one_update(learner, [toy_batch(1, 3)])
    after = math.sqrt(sum(float(p.grad.square().sum()) for p in learner.model.parameters()))
    assert before > 0.1
    assert after == pytest.approx(1e-3)


def test_cross_entropy_equals_torchs():
    model, batch = ToyModel(0.0), toy_batch(1, 5)
    ours = CrossEntropy(TeacherForced(), 0.1)(model, batch)
    torch_own = Float64CrossEntropy()(model, batch)
    torch.testing.assert_close(ours.sum, torch_own.sum)
    assert ours.tokens == torch_own.tokens == int(batch.loss_mask.sum())


def test_the_decoder_input_receives_the_update():
    updates = []

    class RecordingInput(TeacherForced):
        def set_update(self, update):
            updates.append(update)

    learner_of(CrossEntropy(RecordingInput(), 0.0)).start_update(17)
    assert updates == [17]


def test_the_learning_rate_follows_the_schedule_and_the_factor_of_rollbacks():
    learner = learner_of(Float64CrossEntropy())
    assert learner.start_update(100) == pytest.approx(0.1 * 100 / 400)
    assert learner.start_update(100, 0.5) == pytest.approx(0.5 * 0.1 * 100 / 400)


def test_random_numbers_depend_on_the_seed_of_the_micro_batch_only():
    def sample():
        seed_everything(1, 2, 3)
        return torch.rand(3).tolist()

    first = sample()
    torch.rand(7)
    assert sample() == first
    assert len({derive_seed(*numbers) for numbers in [(1, 2, 3), (1, 2, 4), (1, 3, 2), (12, 3), (1, 23)]}) == 5
