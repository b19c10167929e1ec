"""Projections in 8-bit integers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mtkit.inference import int8
from mtkit.inference.int8 import Int8Linear, has_exact_int8, has_fast_int8, int_mm, quantise


@pytest.fixture(
    params=[
        "torch",
        pytest.param(
            "onednn",
            marks=pytest.mark.skipif(not has_fast_int8(), reason="no VNNI"),
        ),
    ],
    autouse=True,
)
def product(request, monkeypatch) -> None:
    """Each of the two implementations, for any number of outputs."""
    monkeypatch.setattr(int8, "ONEDNN_MIN_OUTPUTS", 1 if request.param == "onednn" else 1 << 30)


def layer(bias: bool = True, d_in: int = 24, d_out: int = 40) -> nn.Linear:
    torch.manual_seed(1)
    return nn.Linear(d_in, d_out, bias=bias)


@pytest.mark.parametrize("bias", [True, False])
def test_equals_the_product_of_the_rounded_numbers(bias: bool) -> None:
    given = layer(bias)
    x = torch.randn(3, 5, 24) * torch.tensor([0.01, 1.0, 100.0]).view(3, 1, 1)
    x_rounded, x_scale = quantise(x.view(15, 24))
    w_rounded, w_scale = quantise(given.weight.detach())
    expected = (x_rounded.double() * x_scale.double()) @ (w_rounded.double() * w_scale.double()).T  # [15, 40]
    if given.bias is not None:
        expected = expected + given.bias.double()
    torch.testing.assert_close(Int8Linear.of(given)(x).double(), expected.view(3, 5, 40), rtol=1e-5, atol=1e-6)


def test_is_near_the_exact_product() -> None:
    given = layer(d_in=256, d_out=64)
    x = torch.randn(50, 256)
    exact = x.double() @ given.weight.double().T + given.bias.double()
    error = Int8Linear.of(given)(x).double() - exact
    assert error.square().mean().sqrt() < 0.015 * exact.std()


def test_rounding_is_to_the_nearest_integer() -> None:
    x = torch.randn(20, 30)
    rounded, scale = quantise(x)
    assert ((rounded * scale - x).abs() <= scale * 0.5001).all()
    assert (rounded.abs().amax(1) == 127).all()
    assert torch.equal(rounded, rounded.round())


def test_a_row_does_not_depend_on_its_batch() -> None:
    product = Int8Linear.of(layer())
    x = torch.randn(9, 24)
    louder = torch.cat([x, 1000 * torch.randn(4, 24)])
    assert torch.equal(product(louder)[:9], product(x))
    assert all(torch.equal(product(x[i : i + 1]), product(x)[i : i + 1]) for i in range(9))


def test_rows_of_zeros_and_no_rows() -> None:
    product = Int8Linear.of(layer())
    torch.testing.assert_close(product(torch.zeros(2, 24)), product.bias.expand(2, 40))
    assert product(torch.zeros(0, 24)).shape == (0, 40)


def test_the_result_has_the_type_of_the_input() -> None:
    assert Int8Linear.of(layer())(torch.randn(2, 24).bfloat16()).dtype == torch.bfloat16


@pytest.mark.skipif(not has_fast_int8(), reason="no VNNI")
def test_both_implementations_agree(monkeypatch) -> None:
    given, x = layer(d_in=128, d_out=300), torch.randn(70, 128)
    found = []
    for min_outputs in (1, 1 << 30):
        monkeypatch.setattr(int8, "ONEDNN_MIN_OUTPUTS", min_outputs)
        found.append(Int8Linear.of(given)(x))
    torch.testing.assert_close(*found, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("is_exact", [True, False])
def test_the_largest_sums_are_exact_on_every_processor(is_exact, monkeypatch) -> None:
    if is_exact and not has_exact_int8():
        pytest.skip("int8 products saturate on this processor")
    monkeypatch.setattr(int8, "has_exact_int8", lambda: is_exact)
    largest = torch.full((64, 300), int8.INT8_MAX, dtype=torch.int8)
    assert (int_mm(largest.float(), largest.T) == 127**2 * 300).all()
