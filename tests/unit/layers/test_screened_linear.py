"""A screened projection finds the largest output that nn.Linear has."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mtkit.layers import screened_linear
from mtkit.layers.screened_linear import ScreenedLinear

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
    found = ScreenedLinear.of(layer).argmax(x, NONE)
    assert torch.equal(found, layer(x).argmax(1))


def test_outputs_that_bytes_cannot_tell_apart():
    generator = torch.Generator().manual_seed(3)
    alike = torch.randn(1, 24, generator=generator) + 1e-4 * torch.randn(400, 24, generator=generator)
    layer, x = layer_of(alike), torch.randn(50, 24, generator=generator)
    screened = ScreenedLinear.of(layer)
    assert screened.inner[:, :400].unique(dim=1).size(1) < 100  # most are the same in bytes
    assert torch.equal(screened.argmax(x, NONE), layer(x).argmax(1))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.floats(-4, 4), st.floats(-4, 4), st.booleans())
def test_whatever_the_sizes_of_the_numbers(seed, weights, inputs, outlier):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(130, 16, generator=generator) * 10**weights
    x = torch.randn(9, 16, generator=generator) * 10**inputs
    if outlier:  # leaves few steps to all other numbers
        weight[7, 3], x[:, 5] = weight.abs().max() * 100, x.abs().max() * 100
    layer = layer_of(weight)
    exact = (x.double() @ weight.double().T).sort(dim=1, descending=True)
    clear = exact.values[:, 0] - exact.values[:, 1] > 1e-5 * exact.values[:, 0].abs()
    found = ScreenedLinear.of(layer).argmax(x, NONE)
    assert torch.equal(found[clear], exact.indices[clear, 0])


def test_a_bound_that_were_too_small_would_show(monkeypatch):
    monkeypatch.setattr(ScreenedLinear, "_margin", lambda self, x, rounded, scale: torch.zeros_like(scale))
    with pytest.raises(AssertionError):
        test_outputs_that_bytes_cannot_tell_apart()


def test_columns_are_left_aside():
    layer = layer_of(torch.randn(250, 8, generator=torch.Generator().manual_seed(1)))
    x = torch.randn(40, 8, generator=torch.Generator().manual_seed(2))
    but = layer(x).argmax(1).unique()
    expected = layer(x).index_fill(1, but, float("-inf")).argmax(1)
    assert torch.equal(ScreenedLinear.of(layer).argmax(x, but), expected)


@pytest.mark.parametrize(("x", "weight"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_zeros(x, weight):
    found = ScreenedLinear.of(layer_of(torch.full((120, 4), weight))).argmax(torch.full((2, 4), x), torch.arange(3))
    assert ((found >= 3) & (found < 120)).all()


def test_a_row_of_no_numbers_harms_no_other():
    layer = layer_of(torch.randn(250, 8, generator=torch.Generator().manual_seed(1)))
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(2))
    expected = layer(x).argmax(1)
    x[1, 4], expected[1] = float("nan"), 0
    assert torch.equal(ScreenedLinear.of(layer).argmax(x, NONE), expected)


def test_rows_are_taken_a_few_at_a_time(monkeypatch):
    layer = layer_of(torch.randn(500, 8, generator=torch.Generator().manual_seed(1)))
    x = torch.randn(40, 8, generator=torch.Generator().manual_seed(2))
    monkeypatch.setattr(screened_linear, "ROWS_AT_ONCE", 7)
    assert torch.equal(ScreenedLinear.of(layer).argmax(x, NONE), layer(x).argmax(1))


def test_some_outputs_alone():
    layer = layer_of(torch.randn(500, 8, generator=torch.Generator().manual_seed(1)))
    x = torch.randn(40, 8, generator=torch.Generator().manual_seed(2))
    columns = torch.arange(499, 0, -3)
    narrow = ScreenedLinear.of(layer).narrowed(columns)
    torch.testing.assert_close(narrow(x), layer(x)[:, columns])
    assert torch.equal(narrow.argmax(x, NONE), layer(x)[:, columns].argmax(1))


def test_it_is_the_projection_itself():
    layer = layer_of(torch.randn(30, 8))
    screened = ScreenedLinear.of(layer)
    assert screened.weight is layer.weight
    x = torch.randn(2, 8)
    assert torch.equal(screened(x), layer(x))


def test_a_bias_is_refused():
    with pytest.raises(ValueError, match="bias"):
        ScreenedLinear.of(nn.Linear(3, 4))
