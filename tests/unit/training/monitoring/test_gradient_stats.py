"""Gradient statistics of each module, compared with the same computed directly."""

import pytest
import torch

from mtkit.training.monitoring.meter import GradientStats
from tests.toy.training import equal, events, toy_config, toy_learner, toy_train


def norm(tensors):
    return float(torch.cat([tensor.flatten() for tensor in tensors]).norm())


def test_norms_and_ratios_are_those_of_the_tensors():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    model[1].bias.requires_grad_(False)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(5, 3)).square().sum().backward()
    gradients = [[p.grad.clone() for p in layer.parameters() if p.requires_grad] for layer in model]
    before = [[p.detach().clone() for p in layer.parameters() if p.requires_grad] for layer in model]
    stats = GradientStats(log_every=2)
    with stats.measure(model, 4):
        optimiser.step()
    by_module = stats.read()["modules"]
    for name, gradient, weights in zip("01", gradients, before, strict=True):
        assert by_module[name]["grad_norm"] == pytest.approx(norm(gradient))
        assert by_module[name]["update_ratio"] == pytest.approx(0.1 * norm(gradient) / norm(weights), rel=1e-4)
    assert stats.read() == {}


@pytest.mark.parametrize(("log_every", "update"), [(0, 2), (2, 3)])
def test_other_updates_are_not_measured(log_every, update):
    stats = GradientStats(log_every)
    with stats.measure(torch.nn.Linear(1, 1), update):
        pass
    assert stats.read() == {}


def test_statistics_are_logged_and_do_not_change_the_training(tmp_path):
    plain, measured = toy_config(max_updates=6), toy_config(max_updates=6, log_gradient_norms=True)
    a = toy_train(tmp_path / "a", plain, learner=toy_learner(plain))
    b = toy_train(tmp_path / "b", measured, learner=toy_learner(measured))
    assert equal(a.weights, b.weights)
    modules = [sorted(record["modules"]) for record in events(tmp_path / "b", "train")]
    assert modules == [["embed", "mix", "output"]] * 2
