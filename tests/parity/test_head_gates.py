"""Head gates against the equations of Louizos et al. 2018 and Voita et al. 2019, and models pruned by them."""

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from mtkit.compression.pruning import choose_open_heads, fold_gates, gated_projections, prune_heads
from mtkit.errors import UsageError
from mtkit.layers.projections import linear
from mtkit.layers.variants.config import ALiBiConfig, HeadGatesConfig
from mtkit.layers.variants.head_gates import HIGH, LOW, TEMPERATURE, GatedProjection
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.weights import load_weights, weights
from tests.toy.decoders import VOCAB, make_batch, make_model

GATES = HeadGatesConfig(penalty=0.25, rate=4.0)
CONFIG = TransformerConfig(
    d_model=12, d_ff=8, num_heads=3, value_head_dim=5, encoder_layers=2, decoder_layers=1, dropout=0.0, head_gates=GATES
)
ALPHA = [[-3.0, 2.0, 0.3], [-4.0, -3.5, -3.0], [0.1, 4.0, -5.0], [3.0, 3.0, 3.0]]  # log alpha of the four modules


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def model_with_gates(config=CONFIG):
    model = make_model(config)
    with torch.no_grad():
        for out, log_alpha in zip(gated_projections(model).values(), ALPHA, strict=True):
            out.gate_weight.copy_(torch.tensor(log_alpha) / GATES.rate)
            out.bias.normal_()
    return model


def estimator(log_alpha):
    """Louizos et al., eq. 13."""
    return min(1.0, max(0.0, sigmoid(log_alpha) * (HIGH - LOW) + LOW))


def test_a_gate_multiplies_its_head():
    out = GatedProjection(linear(6, 4), 3, penalty=GATES.penalty, rate=GATES.rate).double().eval()
    out.gate_weight.data.copy_(torch.tensor([-3.0, 0.5, 5.0]) / GATES.rate)
    x = torch.randn(2, 7, 6, dtype=torch.float64)
    expected = out.bias.expand(2, 7, 4).clone()
    for h, log_alpha in enumerate([-3.0, 0.5, 5.0]):
        expected += estimator(log_alpha) * x[..., 2 * h : 2 * h + 2] @ out.weight[:, 2 * h : 2 * h + 2].T
    assert_close(out(x), expected, rtol=1e-6, atol=1e-6)
    assert out.gates().tolist() == pytest.approx([0.0, estimator(0.5), 1.0])


@pytest.mark.whole
@torch.no_grad()
def test_training_draws_from_the_hard_concrete_distribution():
    """Shares of gates that are 0 and 1, and the mean, against the distribution of Louizos et al., eq. 10 to 12."""
    out = GatedProjection(linear(6, 4), 3, penalty=GATES.penalty, rate=GATES.rate).train()
    log_alpha = [-1.0, 0.2, 1.5]
    out.gate_weight.copy_(torch.tensor(log_alpha) / GATES.rate)
    torch.manual_seed(0)
    samples = torch.stack([out.gates() for _ in range(20_000)])  # [20000, 3]
    grid = [(n + 0.5) / 5000 for n in range(5000)]  # of u
    for h, each in enumerate(log_alpha):
        s = [sigmoid((math.log(u) - math.log(1 - u) + each) / TEMPERATURE) * (HIGH - LOW) + LOW for u in grid]
        bound = 5 * 0.5 / math.sqrt(len(samples))  # five standard errors of a share
        assert float((samples[:, h] == 0).double().mean()) == pytest.approx(sum(z <= 0 for z in s) / 5000, abs=bound)
        assert float((samples[:, h] == 1).double().mean()) == pytest.approx(sum(z >= 1 for z in s) / 5000, abs=bound)
        mean = sum(min(1.0, max(0.0, z)) for z in s) / 5000
        assert float(samples[:, h].mean()) == pytest.approx(mean, abs=bound)
        assert float(out.expected_open()[h]) == pytest.approx(sum(z > 0 for z in s) / 5000, abs=1e-3)


def test_the_penalty_is_that_of_the_paper():
    """Voita et al., sec. 5.1: loss + lambda times the sum over heads of the probability to be open, per token."""
    model, batch, objective = model_with_gates(), make_batch(), CrossEntropy(TeacherForcing(), 0.1)
    torch.manual_seed(0)
    losses = model(batch, objective)
    for out in gated_projections(model).values():
        out.penalty = 0.0
    torch.manual_seed(0)
    plain = model(batch, objective)
    expected = sum(sigmoid(a - TEMPERATURE * math.log(-LOW / HIGH)) for module in ALPHA for a in module)
    assert (losses.sum - plain.sum).item() == pytest.approx(0.25 * expected * losses.tokens, rel=1e-5)
    assert float(losses.extra["open_heads"]) == pytest.approx(expected / 12 * losses.tokens, rel=1e-5)
    losses.sum.backward()
    assert all(out.gate_weight.grad.isfinite().all() for out in gated_projections(model).values())


@torch.no_grad()
def test_a_model_without_closed_heads_computes_what_the_gated_one_does():
    model, batch = model_with_gates().eval(), make_batch()
    keep = choose_open_heads(model, None)
    assert list(keep.values()) == [[1, 2], [2], [0, 1], [0, 1, 2]]  # all of the second are closed; one stays
    config, tensors = prune_heads(*fold_gates(CONFIG, model, weights(model)), keep)
    assert (config.head_gates, config.encoder_heads, config.decoder_heads) == (None, [2, 1], [2])
    pruned = config.build(VOCAB, VOCAB).double().eval()
    load_weights(pruned, tensors)
    assert_close(pruned.decode_states(batch.source, batch.target), model.decode_states(batch.source, batch.target))
    state, reference = pruned.start(batch.source), model.start(batch.source)
    for token in (torch.tensor([2, 2, 2]), torch.tensor([4, 5, 6])):
        step, expected = pruned.step(token, state), model.step(token, reference)
        assert_close(step.hidden, expected.hidden)
        state, reference = step.state, expected.state


def test_a_fraction_removes_the_heads_that_are_open_least_often():
    model = model_with_gates().eval()
    assert list(choose_open_heads(model, 2 / 12).values()) == [[0, 1, 2], [1, 2], [0, 1], [0, 1, 2]]
    with pytest.raises(UsageError, match="removes 9 of 12 heads"):
        choose_open_heads(model, 0.75)


@pytest.mark.whole
def test_training_closes_gates():
    """A penalty above what a head is worth closes it; without penalty all stay open."""
    for penalty, is_closed in ((2.0, True), (0.0, False)):
        model = make_model(replace(CONFIG, head_gates=HeadGatesConfig(penalty=penalty)))
        optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
        torch.manual_seed(0)
        for _ in range(120):
            optimiser.zero_grad()
            model(make_batch(), CrossEntropy(TeacherForcing(), 0.0)).sum.backward()
            optimiser.step()
        gates = torch.cat([out.gates() for out in gated_projections(model.eval()).values()])
        assert bool((gates == 0).all()) == is_closed
        assert bool((gates > 0).any()) != is_closed


@pytest.mark.parametrize("keys", [{"num_kv_heads": 1}, {"encoder_positions": ALiBiConfig()}])
def test_gates_on_heads_that_could_not_be_removed_are_refused(keys):
    with pytest.raises(ValueError, match=r"^head_gates: cannot be combined with (num_kv_heads|positions with a bias)"):
        replace(CONFIG, **keys)
