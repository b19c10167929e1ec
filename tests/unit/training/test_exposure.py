"""What the decoder reads in parallel scheduled sampling and its kin."""

import math

import pytest
import torch
from torch.testing import assert_close

from mtkit.corpus.order.batch import Target
from mtkit.training.decoder_inputs.experimental.confidence_aware import ConfidenceAware, ConfidenceAwareConfig
from mtkit.training.decoder_inputs.experimental.switch_out import SwitchOut, SwitchOutConfig
from mtkit.training.decoder_inputs.experimental.word_dropout import WordDropoutConfig
from mtkit.training.decoder_inputs.parallel_sampling import ParallelSampling, ParallelSamplingConfig
from mtkit.training.decoder_inputs.scheduled_sampling import COINS, step_by_step
from mtkit.training.decoder_inputs.target_tokens import Places
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.decoder_inputs.teacher_forcing_ratio import LinearDecayConfig
from mtkit.training.decoder_inputs.token_sampler import choose_best
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.objectives.r_drop import RDrop
from tests.unit.training.test_decoder_input import MODELS, PIECES, VOCAB, gradients, make, make_batch

NEVER = LinearDecayConfig(updates=1, end=0.0)


def parallel(passes, rate=0.0):
    return ParallelSampling(lambda i: rate, COINS["token"], choose_best, passes=passes)


@pytest.mark.parametrize("left", [0, 2])
@pytest.mark.parametrize("kind", ["transformer", "bahdanau"])
def test_as_many_passes_as_tokens_are_step_by_step(kind, left):
    model, batch = make(MODELS[kind]), make_batch(left=left)
    torch.manual_seed(5)
    truth = torch.rand(batch.scored.shape) < 0.4  # by place; of each sentence's tokens in order:
    in_order = truth[:, left:]
    expected = step_by_step(model, batch, truth=in_order, choice=choose_best)
    target = parallel(5).target(model, batch, truth)
    found = model.hidden(batch.source, target)[batch.scored]
    assert_close(found, expected)
    assert_close(gradients(model, found), gradients(model, expected))


def test_one_pass_reads_what_follows_each_true_prefix():
    model, batch = make(MODELS["transformer"]), make_batch()
    target = parallel(1).target(model, batch, torch.zeros_like(batch.scored))
    best = model.output(model.hidden(batch.source, batch.target)).argmax(-1)  # [B, T]
    inner = batch.target.real[:, 1:]
    assert torch.equal(target.ids[:, 1:][inner], best[:, :-1][inner])
    assert torch.equal(target.ids[:, 0], batch.target.ids[:, 0])


@pytest.mark.parametrize("kind", MODELS)
def test_always_the_truth_is_teacher_forcing(kind):
    model, batch = make(MODELS[kind]), make_batch()
    expected = TeacherForcing()(model, batch)
    assert_close(parallel(2, rate=1.0)(model, batch), expected)
    assert torch.equal(parallel(2).target(model, batch, torch.ones_like(batch.scored)).ids, batch.target.ids)
    assert_close(parallel(2)(model.eval(), batch), expected)


def test_the_probability_is_that_of_the_update():
    sampling = ParallelSamplingConfig(decay=LinearDecayConfig(updates=10, end=0.0), choice="gumbel").build(PIECES)
    sampling.set_update(6)
    assert sampling.probability == pytest.approx(0.5)
    torch.manual_seed(0)
    assert sampling(make(MODELS["transformer"]), make_batch()).isfinite().all()


def test_confidence_decides_what_is_read():
    model, batch = make(MODELS["transformer"]), make_batch()
    places = Places.of(batch.target)
    probability = model.output(model.hidden(batch.source, batch.target)).softmax(-1).detach()  # [B, T, V]
    before = probability[places.sentence, places.before]  # [M, V]
    truth = places.values(batch.target.ids)
    sure = before.gather(1, truth.unsqueeze(1)).squeeze(1)
    golden = float(sure.sort().values[2])
    read = places.values(ConfidenceAware(golden, 1.0, PIECES).target(model, batch).ids)
    assert torch.equal(read, torch.where(sure.float() > golden, before.argmax(1), truth))
    assert torch.equal(ConfidenceAware(1.0, 1.0, PIECES).target(model, batch).ids, batch.target.ids)
    chance = places.values(ConfidenceAware(0.0, 0.0, PIECES).target(model, batch).ids)
    assert ((chance >= PIECES.first) & (chance < VOCAB)).all()
    with pytest.raises(ValueError, match=r"random: 0\.8 is below golden, 0\.9"):
        ConfidenceAwareConfig(golden=0.9, random=0.8)


def test_places_look_back_over_padding():
    real = torch.tensor([[False, True, False, True, True]])
    places = Places.of(Target(torch.arange(5).unsqueeze(0), real, torch.zeros(1, 5, dtype=torch.int64)))
    assert places.column.tolist() == [3, 4]
    assert places.before.tolist() == [1, 3]
    assert places.ordinal.tolist() == [1, 2]


class Listening(torch.nn.Module):
    """Keeps what it reads."""

    def hidden(self, source, target):
        self.read = target.ids
        return torch.zeros(*target.ids.shape, 2)


def test_dropped_words_are_unknown():
    model, batch = Listening(), make_batch()
    WordDropoutConfig(rate=1.0).build(PIECES)(model, batch)
    places = Places.of(batch.target)
    assert (places.values(model.read) == PIECES.unk).all()
    assert (model.read[:, 0] == batch.target.ids[:, 0]).all()
    WordDropoutConfig(rate=1.0).build(PIECES)(model.eval(), batch)
    assert torch.equal(model.read, batch.target.ids)


def test_switch_out_replaces_as_many_as_the_papers_distribution_says():
    torch.manual_seed(0)
    ids = torch.zeros(4000, 4, dtype=torch.int64)
    target = Target(ids, torch.ones_like(ids, dtype=torch.bool), torch.arange(4).expand(4000, 4))
    read = SwitchOut(2.0, PIECES).target(target).ids
    assert (read[:, 0] == 0).all()
    assert set(read[read > 0].tolist()) == set(range(PIECES.first, VOCAB))
    found = (read > 0).sum(1).bincount(minlength=4) / 4000
    expected = torch.tensor([math.exp(-n / 2.0) for n in range(4)])
    assert_close(found, expected / expected.sum(), atol=0.03, rtol=0)
    places = (read > 0).double().mean(0)[1:]
    assert_close(places, places.mean().expand(3), atol=0.03, rtol=0)
    model = Listening()
    SwitchOutConfig().build(PIECES)(model.eval(), make_batch())
    assert torch.equal(model.read, make_batch().target.ids)


def test_a_pass_without_gradient_takes_none_from_the_next_in_bf16():
    """Autocast must not hand the weights that it cast without gradient to the pass that learns."""
    torch.manual_seed(0)
    model, batch = MODELS["transformer"].build(VOCAB, VOCAB).train(), make_batch()
    sampling = ParallelSamplingConfig(decay=NEVER, choice="argmax").build(PIECES)
    sampling.set_update(10)
    confident = ConfidenceAwareConfig(golden=0.0).build(PIECES)
    for objective in (CrossEntropy(sampling, 0.1), RDrop(confident, 0.1, 1.0)):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            losses = model(batch, objective)
        losses.sum.backward()
        missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum()]
        assert [name for name in missing if not name.endswith("bias")] == []
