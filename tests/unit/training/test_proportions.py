"""The figures of each part, against the same taken by hand."""

import json

import pytest
import torch

from mtkit.training.monitoring.gradient_stats import Proportions
from tests.unit.training.toy_training import toy_config, toy_learner, toy_train


def norm(tensors):
    return float(torch.cat([tensor.flatten() for tensor in tensors]).norm())


def test_norms_and_ratios_are_those_of_the_tensors():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    model[1].bias.requires_grad_(False)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(5, 3)).square().sum().backward()
    gradients = [[p.grad.clone() for p in layer.parameters() if p.requires_grad] for layer in model]
    before = [[p.detach().clone() for p in layer.parameters() if p.requires_grad] for layer in model]
    proportions = Proportions(every=2)
    with proportions.measuring(model, 4):
        optimiser.step()
    found = proportions.read()["parts"]
    for name, gradient, weights in zip("01", gradients, before, strict=True):
        assert found[name]["grad_norm"] == pytest.approx(norm(gradient))
        assert found[name]["update_ratio"] == pytest.approx(0.1 * norm(gradient) / norm(weights), rel=1e-4)
    assert proportions.read() == {}


@pytest.mark.parametrize(("every", "update"), [(0, 2), (2, 3)])
def test_other_updates_are_not_looked_at(every, update):
    proportions = Proportions(every)
    with proportions.measuring(torch.nn.Linear(1, 1), update):
        pass
    assert proportions.read() == {}


def test_they_are_in_the_log_and_change_nothing(tmp_path):
    plain, seen = toy_config(max_updates=6), toy_config(max_updates=6, log_parts=True)
    a = toy_train(tmp_path / "a", plain, learner=toy_learner(plain))
    b = toy_train(tmp_path / "b", seen, learner=toy_learner(seen))
    assert all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)
    lines = [json.loads(line) for line in (tmp_path / "b/log.jsonl").read_text().strip().split("\n")]
    parts = [line["parts"] for line in lines if line["event"] == "train"]
    assert [sorted(each) for each in parts] == [["embed", "mix", "output"]] * 2
