"""Step-by-step scheduled sampling, for every model family."""

import math

import pytest
import torch
from torch.testing import assert_close

from mtkit.config import construct
from mtkit.corpus.order.batch import Target
from mtkit.training.decoder_inputs.config import LinearDecayConfig, ScheduledSamplingConfig, TeacherForcingConfig
from mtkit.training.decoder_inputs.interface import SAMPLERS
from mtkit.training.decoder_inputs.scheduled_sampling import TRUTH_MASKS, ScheduledSampling, step_by_step
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from tests.toy.decoders import MODELS, VOCAB_IDS, gradients, make_batch, make_model

every_model = pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)


@every_model
@pytest.mark.parametrize("left", [0, 2])
def test_steps_that_read_the_truth_equal_teacher_forcing_with_its_gradients(config, left):
    model, batch = make_model(config), make_batch(left=left)
    expected = TeacherForcing()(model, batch)
    assert expected.shape == (int(batch.loss_mask.sum()), model.output.in_features)
    truth = torch.ones_like(batch.loss_mask)
    states = step_by_step(model, batch, truth=truth, sampler=SAMPLERS["argmax"])
    assert_close(states, expected)
    assert_close(gradients(model, states), gradients(model, expected))


@every_model
def test_without_truth_the_decoder_reads_its_own_argmax(config):
    """Each step reads the argmax after the step before: teacher forcing on the sentences generated that way."""
    model, batch = make_model(config), make_batch()
    truth = torch.zeros_like(batch.loss_mask)
    states = step_by_step(model, batch, truth=truth, sampler=SAMPLERS["argmax"])
    ids = batch.target.ids.clone()
    for t in range(1, ids.size(1)):
        own = Target(ids, batch.target.real, batch.target.pos)
        ids[:, t] = model.output(model.decode_states(batch.source, own)[:, t - 1]).argmax(-1)
    expected = model.decode_states(batch.source, Target(ids, batch.target.real, batch.target.pos))[batch.loss_mask]
    assert_close(states, expected)


def test_eval_mode_and_ratio_one_read_the_truth():
    model, batch = make_model(MODELS["bahdanau"]), make_batch()
    expected = TeacherForcing()(model, batch)
    always, never = (ScheduledSampling(ScheduledSamplingConfig(), VOCAB_IDS) for _ in range(2))
    always.ratio, never.ratio = 1.0, 0.0
    assert_close(always(model, batch), expected)
    assert not torch.allclose(never(model, batch), expected)
    assert_close(never(model.eval(), batch), expected)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("per", TRUTH_MASKS)
def test_the_same_seed_gives_the_same_states(per, sampler):
    model, batch = make_model(MODELS["bahdanau"]), make_batch()
    schedule = LinearDecayConfig(updates=1, end=0.5)
    sampling = construct(ScheduledSamplingConfig(teacher_forcing_ratio=schedule, per=per, sampler=sampler), VOCAB_IDS)
    sampling.set_update(2)
    states = []
    for seed in (3, 3):
        torch.manual_seed(seed)
        states.append(sampling(model, batch))
    assert torch.equal(*states)


def test_truth_masks_have_the_given_probability():
    torch.manual_seed(0)
    ids = torch.zeros(200, 100)
    deviation = math.sqrt(0.3 * 0.7 / ids.numel())
    assert TRUTH_MASKS["token"](ids, 0.3).double().mean().item() == pytest.approx(0.3, abs=4 * deviation)
    sentences = TRUTH_MASKS["sentence"](ids, 0.3)
    assert (sentences == sentences[:, :1]).all()
    assert sentences[:, 0].double().mean().item() == pytest.approx(0.3, abs=4 * math.sqrt(0.3 * 0.7 / 200))


def test_set_update_sets_the_teacher_forcing_ratio():
    config = ScheduledSamplingConfig(teacher_forcing_ratio=LinearDecayConfig(updates=10, end=0.0))
    sampling = construct(config, VOCAB_IDS)
    assert sampling.ratio == 1.0
    sampling.set_update(1)
    assert sampling.ratio == 1.0
    sampling.set_update(6)
    assert sampling.ratio == pytest.approx(0.5)
    assert config.ratio_at(6) == sampling.ratio
    construct(TeacherForcingConfig(), VOCAB_IDS).set_update(6)
