import copy
import math

import pytest
import torch
from torch import nn

from mtkit.training.optimisers.adafactor import AdafactorConfig
from mtkit.training.optimisers.lion import LionConfig
from mtkit.training.optimisers.muon import MuonConfig, hidden_matrices
from mtkit.training.optimisers.torch_optimisers import (
    AdamConfig,
    AdamWConfig,
    SGDConfig,
    load_optimiser,
    optimiser_tensors,
    set_lr,
)
from tests.toy.training import ToyModel

KINDS = [
    AdamConfig(),
    AdamWConfig(weight_decay=0.1),
    SGDConfig(learning_rate=0.01, momentum=0.9),
    AdafactorConfig(),
    LionConfig(),
    MuonConfig(),
]


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))


def updates(model, optimiser, numbers):
    for number in numbers:
        torch.manual_seed(number)
        optimiser.zero_grad()
        model(torch.randn(5, 3)).square().sum().backward()
        optimiser.step()


@pytest.mark.parametrize("config", KINDS, ids=lambda config: config.kind)
def test_resuming_from_the_saved_state_gives_the_same_bits(config):
    whole = net()
    optimiser = config.build(whole)
    updates(whole, optimiser, range(3))
    half = copy.deepcopy(whole)
    resumed = config.build(half)
    load_optimiser(resumed, half, {n: t.clone() for n, t in optimiser_tensors(optimiser, whole).items()})
    updates(whole, optimiser, range(3, 6))
    updates(half, resumed, range(3, 6))
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), half.parameters(), strict=True))


def test_adam_is_the_papers_algorithm():
    model = nn.Linear(3, 1, bias=False)
    weight, config = model.weight.detach().clone(), AdamConfig(learning_rate=0.1, beta1=0.8, beta2=0.9, eps=1e-6)
    optimiser = config.build(model)
    mean = variance = torch.zeros_like(weight)
    for t in range(1, 5):
        gradient = torch.randn_like(weight)
        model.weight.grad = gradient.clone()
        optimiser.step()
        mean = 0.8 * mean + 0.2 * gradient
        variance = 0.9 * variance + 0.1 * gradient**2
        weight = weight - 0.1 * (mean / (1 - 0.8**t)) / ((variance / (1 - 0.9**t)).sqrt() + 1e-6)
        torch.testing.assert_close(model.weight.detach(), weight)


def test_adamw_decays_matrices_only():
    model = net()
    groups = AdamWConfig(weight_decay=0.3).build(model).param_groups
    assert [group["weight_decay"] for group in groups] == [0.3, 0.0]
    assert [{p.dim() for p in group["params"]} for group in groups] == [{2}, {1}]


def test_frozen_parameters_are_left_out():
    model = net()
    model[0].weight.requires_grad_(False)
    assert sum(len(group["params"]) for group in AdamConfig().build(model).param_groups) == 5


def test_the_learning_rate_is_a_factor_of_each_groups_peak():
    optimiser = AdamWConfig(learning_rate=0.5).build(net())
    optimiser.param_groups[1]["peak_lr"] = 0.1
    assert set_lr(optimiser, 0.5) == 0.25
    assert [group["lr"] for group in optimiser.param_groups] == [0.25, 0.05]


def given_gradients(config, weight, updates=4):
    """(gradient, weight after it) of each update of a linear layer."""
    model = nn.Linear(weight.size(1), weight.size(0), bias=False)
    model.weight.data.copy_(weight)
    optimiser = config.build(model)
    for _ in range(updates):
        gradient = torch.randn_like(weight)
        model.weight.grad = gradient.clone()
        optimiser.step()
        yield gradient, model.weight.detach().clone()


def test_lion_is_the_papers_algorithm():
    torch.manual_seed(0)
    weight, momentum = torch.randn(3, 2), torch.zeros(3, 2)
    config = LionConfig(learning_rate=0.1, beta1=0.8, beta2=0.6, weight_decay=0.2)
    for gradient, found in given_gradients(config, weight):
        direction = (0.8 * momentum + 0.2 * gradient).sign()
        weight = weight - 0.1 * (direction + 0.2 * weight)
        momentum = 0.6 * momentum + 0.4 * gradient
        torch.testing.assert_close(found, weight)


def test_adafactor_is_the_papers_algorithm():
    torch.manual_seed(0)
    weight = torch.randn(4, 3)
    rows, columns = torch.zeros(4), torch.zeros(3)
    for update, (gradient, found) in enumerate(given_gradients(AdafactorConfig(learning_rate=0.05), weight), start=1):
        decay = 1 - update**-0.8
        rows = decay * rows + (1 - decay) * gradient.square().sum(1)
        columns = decay * columns + (1 - decay) * gradient.square().sum(0)
        moved = gradient / (torch.outer(rows, columns) / rows.sum()).sqrt()
        moved = moved / max(1.0, float(moved.square().mean().sqrt()) / 1.0)
        rate = max(1e-3, float(weight.square().mean().sqrt())) * min(0.05, update**-0.5)
        weight = weight - rate * moved
        torch.testing.assert_close(found, weight)


def test_muon_is_the_authors_iteration():
    """Torch iterates in bf16, so that the numbers agree to its precision only."""
    torch.manual_seed(0)
    weight, momentum = torch.randn(6, 4), torch.zeros(6, 4)
    for gradient, found in given_gradients(MuonConfig(learning_rate=0.1, momentum=0.9, weight_decay=0.2), weight):
        momentum = 0.9 * momentum + 0.1 * gradient
        x = (0.1 * gradient + 0.9 * momentum).mT
        x = x / x.norm()
        for _ in range(5):
            square = x @ x.mT
            x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
        weight = weight * (1 - 0.1 * 0.2) - 0.1 * 0.2 * math.sqrt(6) * x.mT
        torch.testing.assert_close(found, weight, atol=4e-3, rtol=0)
        weight = found


def test_muon_leaves_embeddings_output_and_vectors_to_adamw():
    model = ToyModel()
    assert [p.shape for p in hidden_matrices(model)] == [model.mix.weight.shape]
    groups = MuonConfig(weight_decay=0.3).build(model).param_groups
    assert [[id(p) for p in group["params"]] for group in groups[:2]] == [
        [id(model.mix.weight)],
        [id(model.embed.weight)],
    ]
    assert [group["weight_decay"] for group in groups] == [0.3, 0.3, 0.0]
    assert set_lr(MuonConfig(learning_rate=0.5).build(model), 0.5) == 0.25
