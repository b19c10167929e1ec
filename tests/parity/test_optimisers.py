"""Optimisers against their papers' algorithms as loops in float64, over updates with a changing learning rate.

The model has an embedding, two matrices and a bias each, so that parameter groups and weight decay are compared too.
"""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mtkit.config import construct
from mtkit.training.optimisers.config import (
    AdadeltaConfig,
    AdafactorConfig,
    AdamConfig,
    AdamWConfig,
    LionConfig,
    MuonConfig,
    SGDConfig,
)
from mtkit.training.optimisers.optimisers import set_lr

UPDATES = 12


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.hidden, self.output = nn.Embedding(5, 3), nn.Linear(3, 4), nn.Linear(4, 5)


def numbers(matrix):
    """Every index of a tensor."""
    return [tuple(index) for index in torch.ones(matrix.shape).nonzero().tolist()]


class SGD:
    """v = momentum v + g; w = w - rate v."""

    def __init__(self, config, name, w):
        self.config, self.v = config, torch.zeros_like(w)

    def update(self, w, g, rate, t):
        for i in numbers(w):
            self.v[i] = self.config.momentum * self.v[i] + g[i]
            w[i] -= rate * self.v[i]


class Adam:
    """Kingma & Ba 2015, algorithm 1; Loshchilov & Hutter 2019, algorithm 2, line 12, where the config has a decay."""

    def __init__(self, config, name, w):
        self.config, self.m, self.v = config, torch.zeros_like(w), torch.zeros_like(w)
        self.decay = config.weight_decay if w.dim() == 2 and config.kind != "adam" else 0.0

    def update(self, w, g, rate, t):
        beta1, beta2 = self.config.beta1, self.config.beta2
        for i in numbers(w):
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g[i]
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g[i] ** 2
            mean, variance = self.m[i] / (1 - beta1**t), self.v[i] / (1 - beta2**t)
            w[i] -= rate * (mean / (math.sqrt(variance) + self.config.eps) + self.decay * w[i])


class Lion:
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, config, name, w):
        self.config, self.m = config, torch.zeros_like(w)
        self.decay = config.weight_decay if w.dim() == 2 else 0.0

    def update(self, w, g, rate, t):
        beta1, beta2 = self.config.beta1, self.config.beta2
        for i in numbers(w):
            direction = math.copysign(1, beta1 * self.m[i] + (1 - beta1) * g[i])
            w[i] -= rate * (direction + self.decay * w[i])
            self.m[i] = beta2 * self.m[i] + (1 - beta2) * g[i]


class Adadelta:
    """Zeiler 2012, algorithm 1, whose update is multiplied by the rate."""

    def __init__(self, config, name, w):
        self.config, self.squares, self.moved = config, torch.zeros_like(w), torch.zeros_like(w)

    def update(self, w, g, rate, t):
        rho, eps = self.config.rho, self.config.eps
        for i in numbers(w):
            self.squares[i] = rho * self.squares[i] + (1 - rho) * g[i] ** 2
            x = -math.sqrt(self.moved[i] + eps) / math.sqrt(self.squares[i] + eps) * g[i]
            self.moved[i] = rho * self.moved[i] + (1 - rho) * x**2
            w[i] += rate * x


class Adafactor:
    """Shazeer & Stern 2018, algorithm 4 for matrices and 5 for vectors, with the rates of sec. 9."""

    def __init__(self, config, name, w):
        self.config = config
        self.rows, self.columns = torch.zeros(w.size(0)).double(), torch.zeros(w.size(-1)).double()

    def update(self, w, g, rate, t):
        decay = 1 - t**-self.config.decay_rate
        moved = torch.zeros_like(w)
        if w.dim() == 1:
            for i in range(len(w)):
                self.rows[i] = decay * self.rows[i] + (1 - decay) * g[i] ** 2
                moved[i] = g[i] / math.sqrt(self.rows[i])
        else:
            for i in range(w.size(0)):
                self.rows[i] = decay * self.rows[i] + (1 - decay) * sum(x**2 for x in g[i])
            for j in range(w.size(1)):
                self.columns[j] = decay * self.columns[j] + (1 - decay) * sum(x**2 for x in g[:, j])
            for i, j in numbers(w):
                moved[i, j] = g[i, j] / math.sqrt(self.rows[i] * self.columns[j] / self.rows.sum())
        size = math.sqrt(sum(moved[i] ** 2 for i in numbers(w)) / w.numel())
        scale = max(self.config.min_scale, math.sqrt(sum(w[i] ** 2 for i in numbers(w)) / w.numel()))
        w -= scale * min(rate, t**-0.5) * moved / max(1.0, size / self.config.clip_threshold)


class Muon:
    """Jordan et al. 2024 with Nesterov momentum and five quintic iterations; scaled as Liu et al. 2025, eq. 4."""

    def __init__(self, config, name, w):
        self.config, self.m = config, torch.zeros_like(w)
        self.adamw = None if name == "hidden.weight" else Adam(config, name, w)

    def update(self, w, g, rate, t):
        if self.adamw:
            self.adamw.update(w, g, rate, t)
            return
        momentum = self.config.momentum
        self.m = momentum * self.m + (1 - momentum) * g
        x = (1 - momentum) * g + momentum * self.m
        x = x.T if w.size(0) > w.size(1) else x
        x = x / math.sqrt(sum(x[i] ** 2 for i in numbers(x)))
        for _ in range(self.config.ns_steps):
            square = x @ x.T
            x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
        x = x.T if w.size(0) > w.size(1) else x
        w *= 1 - rate * self.config.weight_decay
        w -= rate * 0.2 * math.sqrt(max(w.shape)) * x


CASES = {
    "sgd": (SGDConfig(learning_rate=0.1), SGD, 1e-12),
    "sgd with momentum": (SGDConfig(learning_rate=0.1, momentum=0.9), SGD, 1e-12),
    "adam": (AdamConfig(learning_rate=0.1, beta1=0.8, beta2=0.9, eps=1e-3), Adam, 1e-12),
    "adamw": (AdamWConfig(learning_rate=0.1, beta1=0.8, beta2=0.9, eps=1e-3, weight_decay=0.3), Adam, 1e-12),
    "adadelta": (AdadeltaConfig(learning_rate=0.5, rho=0.9, eps=1e-3), Adadelta, 1e-12),
    "lion": (LionConfig(learning_rate=0.1, beta1=0.8, beta2=0.6, weight_decay=0.2), Lion, 1e-12),
    "adafactor": (AdafactorConfig(learning_rate=0.4, decay_rate=0.7, clip_threshold=1.1), Adafactor, 1e-7),
    "muon": (MuonConfig(learning_rate=0.1, momentum=0.9, weight_decay=0.2, eps=1e-3), Muon, 6e-3),  # iterates in bf16
}


@pytest.mark.parametrize("name", CASES)
def test_every_weight_moves_as_in_the_paper(name):
    config, reference, tolerance = CASES[name]
    torch.manual_seed(0)
    model = Model().double()
    optimiser = construct(config, model)
    weights = {key: p.detach().clone() for key, p in model.named_parameters()}
    references = {key: reference(config, key, w) for key, w in weights.items()}
    for t in range(1, UPDATES + 1):
        factor = min(t / 4, 1.0)
        set_lr(optimiser, factor)
        for key, p in model.named_parameters():
            p.grad = torch.randn_like(p)
            references[key].update(weights[key], p.grad, config.learning_rate * factor, t)
        optimiser.step()
        for key, p in model.named_parameters():
            assert_close(p.detach(), weights[key], atol=tolerance, rtol=tolerance, msg=lambda m, k=key: f"{k}: {m}")
            if key == "hidden.weight" and name == "muon":
                weights[key] = p.detach().clone()  # rounding errors of earlier updates do not add up


def test_adadelta_of_a_loss_divided_by_n_has_the_same_updates_with_a_rate_of_n_and_an_eps_divided_by_its_square():
    n, models = 25.0, []
    for scale in (1.0, n):
        torch.manual_seed(0)
        models.append(Model().double())
        optimiser = construct(AdadeltaConfig(learning_rate=scale, eps=1e-6 / scale**2), models[-1])
        for _ in range(UPDATES):
            for p in models[-1].parameters():
                p.grad = 1e-3 * torch.randn_like(p) / scale
            optimiser.step()
    for (name, p), other in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        assert_close(p, other, atol=1e-12, rtol=1e-12, msg=lambda m, name=name: f"{name}: {m}")
