"""Feed-forward layers, gated ones and mixtures of experts."""

import copy
import math

import pytest
import torch

from mtkit.layers.feed_forward.aux_loss import Note, Tape, open_tape, recording
from mtkit.layers.feed_forward.dense import DenseConfig
from mtkit.layers.feed_forward.gated import GatedConfig
from mtkit.layers.feed_forward.mixture_of_experts import (
    Experts,
    ExpertsConfig,
    balance_loss,
    group,
    switch,
    top2,
    utilisation,
)

D, F, E, N = 6, 10, 4, 13


def mixture(**keys):
    layer = ExpertsConfig(**({"num_experts": E, "every": 1} | keys)).build(D, F, 0.0)
    assert isinstance(layer, Experts)
    return layer.double()


def make_identical(layer):
    for expert in layer.experts[1:]:
        expert.load_state_dict(layer.experts[0].state_dict())


@pytest.mark.parametrize("expert", [DenseConfig(), GatedConfig()], ids=lambda config: config.kind)
def test_identical_experts_of_two_are_a_dense_layer(expert):
    layer, x = mixture(routing="top2", expert=expert).eval(), torch.randn(N, D, dtype=torch.float64)
    make_identical(layer)
    assert torch.allclose(layer(x), layer.experts[0](x))


def test_identical_switch_experts_are_a_dense_layer_times_p():
    layer, x = mixture().eval(), torch.randn(N, D, dtype=torch.float64)
    make_identical(layer)
    p = layer.router(x).softmax(-1).amax(-1, keepdim=True)
    assert torch.allclose(layer(x), p * layer.experts[0](x))


@pytest.mark.parametrize("routing", ["switch", "top2"])
def test_mixture_is_the_sum_over_experts(routing):
    layer, x = mixture(routing=routing).eval(), torch.randn(2, N, D, dtype=torch.float64)
    prob = layer.router(x.flatten(0, 1)).softmax(-1).view(2, N, E)
    found = layer(x)
    for b in range(2):
        for n in range(N):
            p = prob[b, n].tolist()
            chosen = sorted(range(E), key=lambda e, p=p: -p[e])[: 1 if routing == "switch" else 2]
            total = 1.0 if routing == "switch" else sum(p[e] for e in chosen)
            assert torch.allclose(found[b, n], sum(p[e] / total * layer.experts[e](x[b, n]) for e in chosen))


@pytest.mark.parametrize("routing", ["switch", "top2"])
def test_gradients_are_those_of_the_function(routing):
    layer = mixture(routing=routing)
    x = torch.randn(5, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, x)


def test_padding_is_not_sent_to_an_expert():
    layer = mixture(capacity_factor=0.5).train()
    x, real = torch.randn(1, N, D, dtype=torch.float64), torch.arange(N).unsqueeze(0) < 6
    with recording() as tape:
        padded = layer(x, real)
    with recording() as other:
        alone = layer(x[:, :6])
    assert torch.allclose(padded[:, :6], alone)
    assert padded[:, 6:].eq(0).all()
    assert tape.notes[layer][0].tokens == 6
    assert torch.allclose(tape.read().loss, other.read().loss)


def test_only_training_drops():
    layer, x = mixture(capacity_factor=0.5), torch.randn(N, D, dtype=torch.float64)
    batch = layer.eval()(x)
    assert torch.allclose(batch[3:4], layer(x[3:4]))  # batch-mates change nothing
    with recording() as tape:
        dropped = layer.train()(x).eq(0).all(-1)
    assert dropped.sum() >= N - E * math.ceil(0.5 * N / E)
    assert float(tape.read().figures["dropped"]) == pytest.approx(float(dropped.double().mean()))


def test_capacity_keeps_first_choices_and_then_the_first_tokens():
    experts = torch.tensor([[0, 1], [0, 1], [1, 0], [0, 1]])  # tokens × choices
    order, counts = group(experts, 3, capacity=2)
    kept = [(int(n) % 4, int(n) // 4) for n in order]  # (token, choice)
    assert kept == [(0, 0), (1, 0), (2, 0), (0, 1)]
    assert counts.tolist() == [2, 2, 0]


def test_an_expert_without_tokens_has_a_gradient_of_zero():
    layer = mixture()
    layer(torch.randn(1, D, dtype=torch.float64)).sum().backward()
    assert all(p.grad is not None for p in layer.experts.parameters())


def test_no_tokens_at_all():
    layer = mixture().train()
    with recording() as tape:
        assert layer(torch.zeros(0, 3, D, dtype=torch.float64)).shape == (0, 3, D)
    assert tape.read() is None


def test_the_balance_loss_is_least_when_even():
    even = torch.full((E, E), 1 / E)
    assert float(balance_loss(even, torch.arange(E))) == pytest.approx(1)
    one = torch.eye(E)[torch.zeros(E, dtype=torch.int64)]
    assert float(balance_loss(one, torch.zeros(E, dtype=torch.int64))) == pytest.approx(E)
    assert float(utilisation(torch.tensor([1.0, 0, 0, 0]))) == pytest.approx(1 / E)


def test_gates():
    prob = torch.tensor([[0.1, 0.5, 0.3, 0.1]])
    assert [t.tolist() for t in switch(prob)] == [[[1]], [[0.5]]]
    experts, gates = top2(prob)
    assert experts.tolist() == [[1, 2]]
    assert gates[0].tolist() == pytest.approx([0.625, 0.375])


def test_the_tape_weighs_passes_by_tokens_and_adds_layers():
    one, other, tape = torch.nn.Identity(), torch.nn.Identity(), Tape()
    tape.notes[one] += [Note(1, torch.tensor(4.0), {"f": torch.tensor(0.0)})]
    tape.notes[one] += [Note(3, torch.tensor(8.0), {"f": torch.tensor(1.0)})]
    tape.notes[other] += [Note(5, torch.tensor(1.0), {"f": torch.tensor(0.25)})]
    spoken = tape.read()
    assert float(spoken.loss) == 7 + 1
    assert float(spoken.figures["f"]) == 0.5


def test_nothing_is_said_outside_training():
    layer = mixture()
    assert open_tape(layer) is None
    with recording() as tape:
        assert open_tape(layer) is tape
        assert open_tape(layer.eval()) is None
        with torch.no_grad():
            assert open_tape(layer.train()) is None
    assert open_tape(layer) is None


def test_bf16_autocast_leaves_the_router_in_float32():
    layer, x = copy.deepcopy(mixture(routing="top2")).float(), torch.randn(N, D)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer.router(x.bfloat16()).dtype == torch.float32
        assert torch.allclose(layer.eval()(x).float(), layer(x.float()).float(), atol=1e-6)


def test_every_second_layer_is_a_mixture():
    kinds = [isinstance(ExpertsConfig(num_experts=2).build(D, F, 0.0, layer=i), Experts) for i in range(4)]
    assert kinds == [False, True, False, True]
