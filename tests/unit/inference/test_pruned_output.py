"""The most probable token by 8-bit products: the largest of all logits, exactly."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mtkit.inference.packing import PrunedOutput, check
from mtkit.native.library import native

pytestmark = pytest.mark.skipif(native().functions is None, reason=f"no native library: {native().reason}")


class Banned(ctypes.Structure):
    """Tokens that rows do not have; see c/ranking.h."""

    _fields_ = (("tokens", ctypes.c_void_p), ("counts", ctypes.c_void_p))


NONE = torch.zeros(0, dtype=torch.int32)


class PrunedArgmax:
    """The largest logit of rows, and its column."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = weight.contiguous()
        self.output = PrunedOutput(self.weight.numpy(), None if bias is None else bias.numpy())
        self.structure = self.output.structure

    def __call__(self, x: Tensor, banned: Tensor, counts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        column, value = torch.empty(len(x), dtype=torch.int64), torch.empty(len(x))
        functions: Any = native().functions
        counts = torch.full((len(x),), banned.numel(), dtype=torch.int32) if counts is None else counts
        excluded = Banned(banned.data_ptr(), counts.data_ptr())
        inputs = (ctypes.byref(self.structure), x.data_ptr(), len(x), ctypes.byref(excluded))
        check(functions.mtkit_most_probable(*inputs, column.data_ptr(), value.data_ptr()))
        return column, value


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def exact_argmax(weight: Tensor, x: Tensor, banned: Tensor = NONE) -> Tensor:
    return (x.double() @ weight.double().T).index_fill_(1, banned.long(), float("-inf")).argmax(1)


@pytest.mark.parametrize("outputs", [1, 15, 100, 128, 1037])
@pytest.mark.parametrize("width", [5, 24, 130])
@pytest.mark.parametrize("rows", [0, 1, 12, 300])
def test_the_largest_logit_is_found(outputs, width, rows) -> None:
    weight, x = random(outputs, width), random(rows, width, seed=2)
    column, value = PrunedArgmax(weight)(x, NONE)
    assert torch.equal(column, exact_argmax(weight, x))
    torch.testing.assert_close(value, (x * weight[column]).sum(1), rtol=1e-5, atol=1e-5)


def test_outputs_that_are_equal_in_8_bits() -> None:
    weight, x = random(1, 24) + 1e-4 * random(400, 24, seed=2), random(50, 24, seed=3)
    assert torch.equal(PrunedArgmax(weight)(x, NONE)[0], exact_argmax(weight, x))


def test_the_tests_notice_an_error_bound_that_is_too_small() -> None:
    weight, x = random(1, 24) + 1e-4 * random(400, 24, seed=2), random(50, 24, seed=3)
    pruned = PrunedArgmax(weight)
    pruned.structure.max_norm = pruned.structure.max_rounding_norm = 0
    assert not torch.equal(pruned(x, NONE)[0], exact_argmax(weight, x))


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.floats(-4, 4), st.floats(-4, 4), st.booleans())
def test_any_scale_of_weights_and_inputs(seed, weights, inputs, outlier) -> None:
    weight, x = random(130, 16, seed=seed) * 10**weights, random(9, 16, seed=seed + 1) * 10**inputs
    if outlier:  # all other numbers round to few integers
        weight[7, 3], x[:, 5] = weight.abs().max() * 100, x.abs().max() * 100
    exact = (x.double() @ weight.double().T).sort(dim=1, descending=True)
    clear = exact.values[:, 0] - exact.values[:, 1] > 1e-5 * exact.values[:, 0].abs()
    assert torch.equal(PrunedArgmax(weight)(x, NONE)[0][clear], exact.indices[clear, 0])


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.floats(-4, 4), st.floats(-4, 12), st.booleans())
def test_a_bias_of_any_size_is_added(seed, weights, biases, is_zero) -> None:
    """Also one that is larger than integer products can be, and with inputs of 0."""
    weight, bias = random(131, 16, seed=seed) * 10**weights, random(131, seed=seed + 2) * 10**biases
    x = random(9, 16, seed=seed + 1) * (not is_zero)
    banned = torch.tensor([int(bias.argmax()), 3], dtype=torch.int32)
    logits = (x.double() @ weight.double().T + bias.double()).index_fill_(1, banned.long(), float("-inf"))
    exact = logits.sort(dim=1, descending=True)
    clear = exact.values[:, 0] - exact.values[:, 1] > 1e-5 * exact.values[:, 0].abs()
    column, value = PrunedArgmax(weight, bias)(x, banned)
    assert torch.equal(column[clear], exact.indices[clear, 0])
    torch.testing.assert_close(value.double(), exact.values[:, 0], rtol=1e-5, atol=1e-5)


def test_banned_columns_are_excluded() -> None:
    weight, x = random(250, 8), random(40, 8, seed=2)
    banned = exact_argmax(weight, x).unique().int()
    assert torch.equal(PrunedArgmax(weight)(x, banned)[0], exact_argmax(weight, x, banned))


def test_each_row_has_a_number_of_banned_columns() -> None:
    weight, x = random(700, 8), random(3, 8, seed=2)
    banned = exact_argmax(weight, x[:1]).repeat(2).int()
    banned[1] = exact_argmax(weight, x[1:2])
    column, _ = PrunedArgmax(weight)(
        x[[0, 1, 0, 1]].contiguous(), banned, torch.tensor([0, 1, 2, 2], dtype=torch.int32)
    )
    expected = [exact_argmax(weight, x[[row]], banned[:count]) for row, count in ((0, 0), (1, 1), (0, 2), (1, 2))]
    assert torch.equal(column, torch.cat(expected))


def test_equal_logits_give_the_first_column() -> None:
    weight = random(1, 8).expand(300, 8).contiguous()
    assert PrunedArgmax(weight)(random(3, 8, seed=2), torch.tensor([0, 1], dtype=torch.int32))[0].tolist() == [2, 2, 2]


@pytest.mark.parametrize(("x", "weight"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_zeros(x, weight) -> None:
    column, value = PrunedArgmax(torch.full((120, 4), weight))(torch.full((2, 4), x), torch.arange(3).int())
    assert column.tolist() == [3, 3]
    assert value.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("outputs", [99, 250])
@pytest.mark.parametrize("bad", [float("nan"), -float("nan"), float("inf"), -float("inf"), 3e38])
def test_the_value_is_not_finite_after_an_overflow(outputs, bad) -> None:
    weight, x = random(outputs, 8), random(5, 8, seed=2)
    expected = exact_argmax(weight, x, torch.tensor([0, 7]))
    x[3, 4] = bad
    column, value = PrunedArgmax(weight)(x, torch.tensor([0, 7], dtype=torch.int32))
    good = torch.tensor([0, 1, 2, 4])
    assert torch.equal(column[good], expected[good])
    assert value.isfinite().tolist() == [True, True, True, False, True]
    assert 0 <= int(column[3]) < outputs


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 3e38])
def test_no_value_is_finite_with_such_a_weight(bad) -> None:
    weight = random(250, 8)
    weight[249, 7] = bad
    column, value = PrunedArgmax(weight)(torch.ones(3, 8), NONE)
    assert not value.isfinite().any()
    assert (column < 250).all()


def test_the_value_is_not_finite_if_no_column_is_left() -> None:
    _, value = PrunedArgmax(random(5, 8))(random(2, 8), torch.arange(5).int())
    assert not value.isfinite().any()
