"""The checks of devices: on a GPU as they are, and without one that they can pass and fail."""

from __future__ import annotations

import pytest
import torch

from tests.gpu import checks


@pytest.mark.gpu
@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_a_gpu_agrees_with_the_cpu(check):
    assert [row for row in check("cuda:0") if not row.passed] == []


@pytest.mark.parametrize("keys", checks.MODELS.values(), ids=checks.MODELS)
def test_every_model_is_built(keys):
    assert sum(weight.numel() for weight in checks.build(checks.small_recipe(keys)).parameters()) > 10_000


@pytest.fixture
def one_model(monkeypatch):
    monkeypatch.setattr(checks, "MODELS", {"rope": checks.MODELS["transformer, rope"]})


def test_the_cpu_agrees_with_itself(one_model):
    rows = [*checks.check_gradients("cpu"), *checks.check_translations("cpu", sentences=20)]
    assert len(rows) == 4
    assert all(row.passed for row in rows)


def spoil_every(count, monkeypatch):
    """Change one weight of every `count`-th model that the checks build: that of the device."""
    right, built = checks.build, []

    def build(recipe):
        model = right(recipe)
        built.append(model)
        if len(built) % count == 0:
            with torch.no_grad():
                model.output.weight[:, 0] *= 1.5
        return model

    monkeypatch.setattr(checks, "build", build)


def test_wrong_gradients_are_found(one_model, monkeypatch):
    spoil_every(3, monkeypatch)  # the reference, the CPU, the device
    assert [row.passed for row in checks.check_gradients("cpu", ["float32"])] == [False]


def test_wrong_translations_are_found(one_model, monkeypatch):
    spoil_every(2, monkeypatch)
    assert not any(row.passed for row in checks.check_translations("cpu", sentences=20))
