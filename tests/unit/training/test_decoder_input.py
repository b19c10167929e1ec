import math

import pytest
import torch
from torch.testing import assert_close

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.models.rnn.attention_config import AttentionRNNConfig
from mtkit.models.rnn.seq2seq import LSTMConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.decoder_inputs.interface import TargetPieces
from mtkit.training.decoder_inputs.scheduled_sampling import (
    COINS,
    ScheduledSampling,
    ScheduledSamplingConfig,
    step_by_step,
)
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing, TeacherForcingConfig
from mtkit.training.decoder_inputs.teacher_forcing_ratio import (
    ExponentialDecayConfig,
    InverseSigmoidDecayConfig,
    LinearDecayConfig,
)
from mtkit.training.decoder_inputs.token_sampler import CHOICES, make_choice

VOCAB = 9
PIECES = TargetPieces(size=VOCAB, first=4, pad=0, unk=1, bos=2, eos=3)
MODELS = {
    "bahdanau": AttentionRNNConfig(d_model=6, d_embedding=4, d_attention=5, dropout=0.0, decoder_layers=2),
    "lstm": LSTMConfig(d_model=6, d_embedding=4, dropout=0.0),
    "transformer": TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=2, dropout=0.0),
}
every_model = pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)


def make(config):
    torch.manual_seed(0)
    return config.build(VOCAB, VOCAB).double().train()


def make_batch(*, left=0):
    """Three sentences; `left` columns of padding before the target."""
    lengths = torch.tensor([3, 5, 1])
    columns = torch.arange(left + 5) - left
    real = (columns >= 0) & (columns < lengths.unsqueeze(1))
    pos = columns.clamp(min=0).expand(3, -1)
    tokens = torch.randint(3, VOCAB, (3, 6), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = 2
    ids = torch.where(real, tokens.gather(1, pos), 0)
    labels = torch.where(real, tokens.gather(1, pos + 1), 0)
    scored = real.clone()
    scored[1, left + 2] = False  # not every real place need be scored
    src_real = torch.tensor([[True, True, False], [True, True, True], [False, True, True]])
    src_pos = (src_real.cumsum(1) - 1).clamp(min=0)
    source = Source(torch.randint(3, VOCAB, (3, 3), generator=torch.Generator().manual_seed(2)), src_real, src_pos)
    return Batch(source, Target(ids, real, pos), labels, scored, torch.arange(3))


def gradients(model, hidden):
    loss = hidden.square().sum()
    return [g for g in torch.autograd.grad(loss, list(model.parameters()), allow_unused=True) if g is not None]


@every_model
@pytest.mark.parametrize("left", [0, 2])
def test_steps_that_read_the_truth_are_teacher_forcing_with_its_gradients(config, left):
    model, batch = make(config), make_batch(left=left)
    expected = TeacherForcing()(model, batch)
    assert expected.shape == (int(batch.scored.sum()), model.output.in_features)
    truth = torch.ones_like(batch.scored)
    found = step_by_step(model, batch, truth=truth, choice=CHOICES["argmax"])
    assert_close(found, expected)
    assert_close(gradients(model, found), gradients(model, expected))


@every_model
def test_without_truth_the_decoder_reads_its_own_best_piece(config):
    """What is read at a step is the argmax after the step before: teacher forcing on the sentences so made."""
    model, batch = make(config), make_batch()
    truth = torch.zeros_like(batch.scored)
    found = step_by_step(model, batch, truth=truth, choice=CHOICES["argmax"])
    ids = batch.target.ids.clone()
    for t in range(1, ids.size(1)):
        own = Target(ids, batch.target.real, batch.target.pos)
        ids[:, t] = model.output(model.hidden(batch.source, own)[:, t - 1]).argmax(-1)
    expected = model.hidden(batch.source, Target(ids, batch.target.real, batch.target.pos))[batch.scored]
    assert_close(found, expected)


def test_evaluation_and_probability_one_read_the_truth():
    model, batch = make(MODELS["bahdanau"]), make_batch()
    expected = TeacherForcing()(model, batch)
    always = ScheduledSampling(lambda i: 1.0, COINS["token"], CHOICES["sample"])
    never = ScheduledSampling(lambda i: 0.0, COINS["token"], CHOICES["sample"])
    assert_close(always(model, batch), expected)
    assert not torch.allclose(never(model, batch), expected)
    assert_close(never(model.eval(), batch), expected)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("coin", COINS)
def test_the_same_seed_gives_the_same_states(coin, choice):
    model, batch = make(MODELS["bahdanau"]), make_batch()
    sampling = ScheduledSamplingConfig(decay=LinearDecayConfig(updates=1, end=0.5), coin=coin, choice=choice).build(
        PIECES
    )
    sampling.set_update(2)
    states = []
    for seed in (3, 3):
        torch.manual_seed(seed)
        states.append(sampling(model, batch))
    assert torch.equal(*states)


def test_coins_fall_as_often_as_asked():
    torch.manual_seed(0)
    ids = torch.zeros(200, 100)
    deviation = math.sqrt(0.3 * 0.7 / ids.numel())
    assert COINS["token"](ids, 0.3).double().mean().item() == pytest.approx(0.3, abs=4 * deviation)
    sentences = COINS["sentence"](ids, 0.3)
    assert (sentences == sentences[:, :1]).all()
    assert sentences[:, 0].double().mean().item() == pytest.approx(0.3, abs=4 * math.sqrt(0.3 * 0.7 / 200))


def test_samples_follow_the_distribution():
    torch.manual_seed(0)
    probability = torch.tensor([0.1, 0.2, 0.7])
    for name in ("sample", "gumbel"):
        drawn = CHOICES[name](probability.log().expand(10_000, 3))
        assert_close(drawn.bincount(minlength=3) / 10_000, probability, atol=0.02, rtol=0)
    cold = make_choice("gumbel", 0.5)(probability.log().expand(10_000, 3))
    squares = probability.square() / probability.square().sum()
    assert_close(cold.bincount(minlength=3) / 10_000, squares, atol=0.02, rtol=0)
    assert CHOICES["argmax"](probability.log().expand(4, 3)).tolist() == [2] * 4


def test_decays_are_the_papers_formulas():
    linear = LinearDecayConfig(updates=100, end=0.2)
    assert [linear.rate(i) for i in (0, 50, 100, 1000)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    exponential = ExponentialDecayConfig(k=0.99)
    assert [exponential.rate(i) for i in (0, 1, 70)] == pytest.approx([1.0, 0.99, 0.99**70])
    sigmoid = InverseSigmoidDecayConfig(k=10.0)
    assert [sigmoid.rate(i) for i in (0, 10, 50)] == pytest.approx([10 / (10 + math.exp(i / 10)) for i in (0, 10, 50)])
    assert sigmoid.rate(10**9) == pytest.approx(0.0)


def test_the_probability_is_that_of_the_update():
    sampling = ScheduledSamplingConfig(decay=LinearDecayConfig(updates=10, end=0.0)).build(PIECES)
    assert sampling.probability == 1.0
    sampling.set_update(1)
    assert sampling.probability == 1.0
    sampling.set_update(6)
    assert sampling.probability == pytest.approx(0.5)
    TeacherForcingConfig().build(PIECES).set_update(6)
