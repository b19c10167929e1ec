"""Mixture of experts: routing, capacity and losses."""

import copy
import math

import pytest
import torch

from mtkit.layers.config import DenseConfig, GatedConfig
from mtkit.layers.layer_call import collect_aux_losses
from mtkit.layers.variants.config import MixtureOfExpertsConfig
from mtkit.layers.variants.mixture_of_experts import (
    MixtureOfExperts,
    balance_loss,
    sort_by_expert,
    switch,
    top2,
    utilisation,
)

D, F, E, N = 6, 10, 4, 13


def mixture(**keys):
    layer = MixtureOfExpertsConfig(**({"num_experts": E, "moe_every": 1} | keys)).build(D, F, 0.0)
    assert isinstance(layer, MixtureOfExperts)
    return layer.double()


def make_identical(layer):
    for expert in layer.experts[1:]:
        expert.load_state_dict(layer.experts[0].state_dict())


@pytest.mark.parametrize("expert", [DenseConfig(), GatedConfig()], ids=lambda config: config.kind)
def test_top2_of_identical_experts_is_a_dense_layer(expert):
    layer, x = mixture(routing="top2", expert=expert).eval(), torch.randn(N, D, dtype=torch.float64)
    make_identical(layer)
    assert torch.allclose(layer(x), layer.experts[0](x))


def test_switch_with_identical_experts_is_a_dense_layer_times_the_gate():
    layer, x = mixture().eval(), torch.randn(N, D, dtype=torch.float64)
    make_identical(layer)
    p = layer.router(x).softmax(-1).amax(-1, keepdim=True)
    assert torch.allclose(layer(x), p * layer.experts[0](x))


@pytest.mark.parametrize("routing", ["switch", "top2"])
def test_mixture_is_the_sum_over_experts(routing):
    layer, x = mixture(routing=routing).eval(), torch.randn(2, N, D, dtype=torch.float64)
    prob = layer.router(x.flatten(0, 1)).softmax(-1).view(2, N, E)
    output = layer(x)
    for b in range(2):
        for n in range(N):
            p = prob[b, n].tolist()
            chosen = sorted(range(E), key=lambda e, p=p: -p[e])[: 1 if routing == "switch" else 2]
            total = 1.0 if routing == "switch" else sum(p[e] for e in chosen)
            assert torch.allclose(output[b, n], sum(p[e] / total * layer.experts[e](x[b, n]) for e in chosen))


@pytest.mark.parametrize("routing", ["switch", "top2"])
def test_gradcheck(routing):
    layer = mixture(routing=routing)
    x = torch.randn(5, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, x)


def test_padding_is_not_routed():
    layer = mixture(capacity_factor=0.5).train()
    x, real = torch.randn(1, N, D, dtype=torch.float64), torch.arange(N).unsqueeze(0) < 6
    with collect_aux_losses() as aux_with_padding:
        padded = layer(x, real)
    with collect_aux_losses() as aux_without:
        alone = layer(x[:, :6])
    assert torch.allclose(padded[:, :6], alone)
    assert padded[:, 6:].eq(0).all()
    assert aux_with_padding.by_layer[layer][0].tokens == 6
    assert torch.allclose(aux_with_padding.total()[0], aux_without.total()[0])


def test_tokens_are_dropped_in_training_only():
    layer, x = mixture(capacity_factor=0.5), torch.randn(N, D, dtype=torch.float64)
    batch = layer.eval()(x)
    assert torch.allclose(batch[3:4], layer(x[3:4]))  # independent of the rest of the batch
    with collect_aux_losses() as aux_losses:
        dropped = layer.train()(x).eq(0).all(-1)
    assert dropped.sum() >= N - E * math.ceil(0.5 * N / E)
    assert float(aux_losses.total()[1]["dropped"]) == pytest.approx(float(dropped.double().mean()))


def test_capacity_prefers_first_choices_then_earlier_tokens():
    experts = torch.tensor([[0, 1], [0, 1], [1, 0], [0, 1]])  # tokens × choices
    order, counts = sort_by_expert(experts, 3, capacity=2)
    assigned = [(int(n) % 4, int(n) // 4) for n in order]  # (token, choice)
    assert assigned == [(0, 0), (1, 0), (2, 0), (0, 1)]
    assert counts.tolist() == [2, 2, 0]


def test_expert_without_tokens_has_zero_gradient():
    layer = mixture()
    layer(torch.randn(1, D, dtype=torch.float64)).sum().backward()
    assert all(p.grad is not None for p in layer.experts.parameters())


def test_empty_batch():
    layer = mixture().train()
    with collect_aux_losses() as aux_losses:
        assert layer(torch.zeros(0, 3, D, dtype=torch.float64)).shape == (0, 3, D)
    assert aux_losses.total() is None


def test_balance_loss_is_minimal_for_an_even_load():
    even = torch.full((E, E), 1 / E)
    assert float(balance_loss(even, torch.arange(E))) == pytest.approx(1)
    one = torch.eye(E)[torch.zeros(E, dtype=torch.int64)]
    assert float(balance_loss(one, torch.zeros(E, dtype=torch.int64))) == pytest.approx(E)
    assert float(utilisation(torch.tensor([1.0, 0, 0, 0]))) == pytest.approx(1 / E)


def test_gates_of_switch_and_top2():
    prob = torch.tensor([[0.1, 0.5, 0.3, 0.1]])
    assert [t.tolist() for t in switch(prob)] == [[[1]], [[0.5]]]
    experts, gates = top2(prob)
    assert experts.tolist() == [[1, 2]]
    assert gates[0].tolist() == pytest.approx([0.625, 0.375])


def test_router_is_float32_under_bf16_autocast():
    layer, x = copy.deepcopy(mixture(routing="top2")).float(), torch.randn(N, D)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer.router(x.bfloat16()).dtype == torch.float32
        assert torch.allclose(layer.eval()(x).float(), layer(x.float()).float(), atol=1e-6)


def test_moe_every_second_layer():
    config = MixtureOfExpertsConfig(num_experts=2)
    kinds = [isinstance(config.of_layer(i).build(D, F, 0.0), MixtureOfExperts) for i in range(4)]
    assert kinds == [False, True, False, True]
