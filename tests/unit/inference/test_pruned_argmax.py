"""Pruned argmax: the same column as the largest output of nn.Linear."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mtkit.inference import pruned_argmax
from mtkit.inference.pruned_argmax import Int8PrunedArgmax


@pytest.fixture(params=[0, 8], ids=["always pruned", "few rows not"], autouse=True)
def _few_rows(request, monkeypatch) -> None:
    monkeypatch.setattr(pruned_argmax, "FEW_ROWS", request.param)


NONE = torch.zeros(0, dtype=torch.int64)


def layer_of(weight: torch.Tensor) -> nn.Linear:
    layer = nn.Linear(weight.size(1), weight.size(0), bias=False)
    layer.weight = nn.Parameter(weight, requires_grad=False)
    return layer


@pytest.mark.parametrize("outputs", [1, 99, 100, 1037])
@pytest.mark.parametrize("rows", [1, 128, 300])
def test_the_largest_output_is_found(outputs, rows):
    generator = torch.Generator().manual_seed(outputs + rows)
    layer = layer_of(torch.randn(outputs, 24, generator=generator))
    x = torch.randn(rows, 24, generator=generator)
    found, _ = Int8PrunedArgmax.of(layer).argmax(x, NONE)
    assert torch.equal(found, layer(x).argmax(1))


def test_outputs_that_are_equal_in_int8():
    generator = torch.Generator().manual_seed(3)
    alike = torch.randn(1, 24, generator=generator) + 1e-4 * torch.randn(400, 24, generator=generator)
    layer, x = layer_of(alike), torch.randn(50, 24, generator=generator)
    pruned = Int8PrunedArgmax.of(layer)
    assert pruned.weight_int8[:, :400].unique(dim=1).size(1) < 100  # most columns are the same
    assert torch.equal(pruned.argmax(x, NONE)[0], layer(x).argmax(1))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.floats(-4, 4), st.floats(-4, 4), st.booleans())
def test_any_scale_of_weights_and_inputs(seed, weights, inputs, outlier):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(130, 16, generator=generator) * 10**weights
    x = torch.randn(9, 16, generator=generator) * 10**inputs
    if outlier:  # all other numbers round to few integers
        weight[7, 3], x[:, 5] = weight.abs().max() * 100, x.abs().max() * 100
    layer = layer_of(weight)
    exact = (x.double() @ weight.double().T).sort(dim=1, descending=True)
    clear = exact.values[:, 0] - exact.values[:, 1] > 1e-5 * exact.values[:, 0].abs()
    found, _ = Int8PrunedArgmax.of(layer).argmax(x, NONE)
    assert torch.equal(found[clear], exact.indices[clear, 0])


def test_the_tests_notice_an_error_bound_that_is_too_small(monkeypatch):
    monkeypatch.setattr(Int8PrunedArgmax, "_error_bound", lambda self, x, rounded, scale: torch.zeros_like(scale))
    with pytest.raises(AssertionError):
        test_outputs_that_are_equal_in_int8()


def test_banned_columns_are_excluded():
    layer = layer_of(torch.randn(250, 8, generator=torch.Generator().manual_seed(1)))
    x = torch.randn(40, 8, generator=torch.Generator().manual_seed(2))
    banned = layer(x).argmax(1).unique()
    expected = layer(x).index_fill(1, banned, float("-inf")).argmax(1)
    assert torch.equal(Int8PrunedArgmax.of(layer).argmax(x, banned)[0], expected)


@pytest.mark.parametrize(("x", "weight"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_zeros(x, weight):
    pruned = Int8PrunedArgmax.of(layer_of(torch.full((120, 4), weight)))
    found, _ = pruned.argmax(torch.full((2, 4), x), torch.arange(3))
    assert ((found >= 3) & (found < 120)).all()


def test_a_row_with_nan_does_not_change_other_rows():
    layer = layer_of(torch.randn(250, 8, generator=torch.Generator().manual_seed(1)))
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(2))
    expected = layer(x).argmax(1)
    x[1, 4], expected[1] = float("nan"), 0
    assert torch.equal(Int8PrunedArgmax.of(layer).argmax(x, NONE)[0], expected)


def test_row_chunks_change_nothing(monkeypatch):
    layer = layer_of(torch.randn(500, 8, generator=torch.Generator().manual_seed(1)))
    x = torch.randn(40, 8, generator=torch.Generator().manual_seed(2))
    monkeypatch.setattr(pruned_argmax, "ROW_CHUNK", 7)
    assert torch.equal(Int8PrunedArgmax.of(layer).argmax(x, NONE)[0], layer(x).argmax(1))


def test_logits_are_those_of_the_layer():
    layer = layer_of(torch.randn(30, 8))
    pruned = Int8PrunedArgmax.of(layer)
    assert pruned.weight is layer.weight
    x = torch.randn(2, 8)
    assert torch.equal(pruned(x), layer(x))


def test_a_bias_is_refused():
    with pytest.raises(ValueError, match="bias"):
        Int8PrunedArgmax.of(nn.Linear(3, 4))


@pytest.mark.parametrize("outputs", [99, 250])
@pytest.mark.parametrize("bad", [float("nan"), -float("nan"), float("inf"), -float("inf"), 3e38])
def test_the_value_is_that_of_the_column_and_not_finite_after_an_overflow(outputs, bad):
    layer = layer_of(torch.randn(outputs, 8, generator=torch.Generator().manual_seed(1)))
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(2))
    x[3, 4] = bad
    column, value = Int8PrunedArgmax.of(layer).argmax(x, torch.tensor([0, 7]))
    good = torch.tensor([0, 1, 2, 4])
    torch.testing.assert_close(value[good], layer(x)[good, column[good]])
    assert value.isfinite().tolist() == [True, True, True, False, True]
    assert 0 <= int(column[3]) < outputs


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 3e38])
def test_no_value_is_finite_with_such_a_weight(bad):
    weight = torch.randn(250, 8, generator=torch.Generator().manual_seed(1))
    weight[249, 7] = bad
    column, value = Int8PrunedArgmax.of(layer_of(weight)).argmax(torch.ones(3, 8), NONE)
    assert not value.isfinite().any()
    assert (column < 250).all()
