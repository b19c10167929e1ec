"""Parallel scheduled sampling against the step-by-step form, and gradients after a pass without gradient."""

import pytest
import torch
from torch.testing import assert_close

from mtkit.config import construct
from mtkit.training.decoder_inputs.config import ConfidenceAwareConfig, LinearDecayConfig, ParallelSamplingConfig
from mtkit.training.decoder_inputs.interface import sample_argmax
from mtkit.training.decoder_inputs.scheduled_sampling import ParallelSampling, step_by_step
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.config import RDropConfig
from mtkit.training.objectives.cross_entropy import CrossEntropy, RDrop
from tests.toy.decoders import MODELS, VOCAB, VOCAB_IDS, gradients, make_batch, make_model
from tests.toy.training import objective_inputs


def parallel(num_passes, ratio=0.0):
    sampling = ParallelSampling(ParallelSamplingConfig(sampler="argmax", num_passes=num_passes), VOCAB_IDS)
    sampling.ratio = ratio
    return sampling


@pytest.mark.parametrize("left", [0, 2])
@pytest.mark.parametrize("kind", ["transformer", "bahdanau"])
def test_one_pass_per_token_equals_step_by_step(kind, left):
    model, batch = make_model(MODELS[kind]), make_batch(left=left)
    torch.manual_seed(5)
    truth = torch.rand(batch.loss_mask.shape) < 0.4  # by position; left-aligned:
    aligned = truth[:, left:]
    expected = step_by_step(model, batch, truth=aligned, sampler=sample_argmax)
    target = parallel(5).target(model, batch, truth)
    states = model.decode_states(batch.source, target)[batch.loss_mask]
    assert_close(states, expected)
    assert_close(gradients(model, states), gradients(model, expected))


def test_one_pass_reads_the_prediction_after_each_true_prefix():
    model, batch = make_model(MODELS["transformer"]), make_batch()
    target = parallel(1).target(model, batch, torch.zeros_like(batch.loss_mask))
    best = model.output(model.decode_states(batch.source, batch.target)).argmax(-1)  # [B, T]
    inner = batch.target.real[:, 1:]
    assert torch.equal(target.ids[:, 1:][inner], best[:, :-1][inner])
    assert torch.equal(target.ids[:, 0], batch.target.ids[:, 0])


@pytest.mark.parametrize("kind", MODELS)
def test_ratio_one_is_teacher_forcing(kind):
    model, batch = make_model(MODELS[kind]), make_batch()
    expected = TeacherForcing()(model, batch)
    assert_close(parallel(2, ratio=1.0)(model, batch), expected)
    assert torch.equal(parallel(2).target(model, batch, torch.ones_like(batch.loss_mask)).ids, batch.target.ids)
    assert_close(parallel(2)(model.eval(), batch), expected)


def test_set_update_sets_the_teacher_forcing_ratio():
    schedule = LinearDecayConfig(updates=10, end=0.0)
    sampling = construct(ParallelSamplingConfig(teacher_forcing_ratio=schedule, sampler="gumbel"), VOCAB_IDS)
    sampling.set_update(6)
    assert sampling.ratio == pytest.approx(0.5)
    torch.manual_seed(0)
    assert sampling(make_model(MODELS["transformer"]), make_batch()).isfinite().all()


def test_a_pass_without_gradient_takes_none_from_the_next_in_bf16():
    """Autocast must not pass weights that it cast without gradient on to the pass with gradient."""
    torch.manual_seed(0)
    model, batch = MODELS["transformer"].build(VOCAB, VOCAB).train(), make_batch()
    schedule = LinearDecayConfig(updates=1, end=0.0)
    sampling = construct(ParallelSamplingConfig(teacher_forcing_ratio=schedule, sampler="argmax"), VOCAB_IDS)
    sampling.set_update(10)
    confident = construct(ConfidenceAwareConfig(golden=0.0), VOCAB_IDS)
    for objective in (CrossEntropy(sampling, 0.1), RDrop(RDropConfig(weight=1.0), objective_inputs(confident, 0.1))):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            losses = model(batch, objective)
        losses.sum.backward()
        missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum()]
        assert [name for name in missing if not name.endswith("bias")] == []
