import copy

import pytest
import torch
from torch import nn

from mtkit.training.optimiser import (
    AdamConfig,
    AdamWConfig,
    SGDConfig,
    load_optimiser,
    optimiser_tensors,
    set_rate,
)

KINDS = [AdamConfig(), AdamWConfig(weight_decay=0.1), SGDConfig(learning_rate=0.01, momentum=0.9)]


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
def test_memory_by_name_continues_to_the_bit(config):
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


def test_rate_is_a_share_of_each_groups_peak():
    optimiser = AdamWConfig(learning_rate=0.5).build(net())
    optimiser.param_groups[1]["peak_rate"] = 0.1
    assert set_rate(optimiser, 0.5) == 0.25
    assert [group["lr"] for group in optimiser.param_groups] == [0.25, 0.05]
