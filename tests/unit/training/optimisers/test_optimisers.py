import copy
from typing import get_args

import pytest
import torch
from torch import nn

from mtkit.config import construct
from mtkit.training.optimisers.config import AdamConfig, AdamWConfig, MuonConfig, OptimiserConfig, SGDConfig
from mtkit.training.optimisers.optimisers import load_optimiser, optimiser_tensors, set_lr
from tests.toy.training import ToyModel

UNION = get_args(OptimiserConfig)
KINDS = [*(kind(learning_rate=0.01) for kind in UNION), SGDConfig(learning_rate=0.01, momentum=0.9)]


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
    optimiser = construct(config, whole)
    updates(whole, optimiser, range(3))
    half = copy.deepcopy(whole)
    resumed = construct(config, half)
    load_optimiser(resumed, half, {n: t.clone() for n, t in optimiser_tensors(optimiser, whole).items()})
    updates(whole, optimiser, range(3, 6))
    updates(half, resumed, range(3, 6))
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), half.parameters(), strict=True))


@pytest.mark.parametrize("config", KINDS, ids=lambda config: config.kind)
def test_every_kind_states_the_size_of_its_state(config):
    model = nn.Linear(64, 64, bias=False)  # so large that a vector or a step count is less than a byte per weight
    model.embedding = nn.Embedding(64, 64)
    optimiser = construct(config, model)
    model(model.embedding(torch.arange(64))).sum().backward()
    optimiser.step()
    sizes = [
        sum(tensor.nbytes for key, tensor in optimiser_tensors(optimiser, model).items() if key.startswith(f"{name}/"))
        for name, _ in model.named_parameters()
    ]
    assert max(sizes) // 64**2 == config.bytes_per_weight


def test_adamw_decays_matrices_only():
    model = net()
    groups = construct(AdamWConfig(weight_decay=0.3), model).param_groups
    assert [group["weight_decay"] for group in groups] == [0.3, 0.0]
    assert [{p.dim() for p in group["params"]} for group in groups] == [{2}, {1}]


def test_frozen_parameters_are_left_out():
    model = net()
    model[0].weight.requires_grad_(False)
    assert sum(len(group["params"]) for group in construct(AdamConfig(), model).param_groups) == 5


def test_the_learning_rate_is_a_factor_of_each_groups_peak():
    optimiser = construct(AdamWConfig(learning_rate=0.5), net())
    optimiser.param_groups[1]["peak_lr"] = 0.1
    assert set_lr(optimiser, 0.5) == 0.25
    assert [group["lr"] for group in optimiser.param_groups] == [0.25, 0.05]


def test_muon_leaves_embeddings_output_and_vectors_to_adamw():
    model = ToyModel()
    groups = construct(MuonConfig(weight_decay=0.3), model).param_groups
    assert [[id(p) for p in group["params"]] for group in groups[:2]] == [
        [id(model.mix.weight)],
        [id(model.embed.weight)],
    ]
    assert [group["weight_decay"] for group in groups] == [0.3, 0.3, 0.0]
    assert set_lr(construct(MuonConfig(learning_rate=0.5), model), 0.5) == 0.25
