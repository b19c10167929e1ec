"""Tests for mtkit/layers/matmul.py."""

import itertools
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from mtkit.errors import UsageError
from mtkit.layers import matmul
from mtkit.layers.projections import linear

needs_onednn = pytest.mark.skipif(not matmul.has_onednn(), reason="this torch has no oneDNN")
SHAPES = [(600, 128, 384), (300, 512, 64), (9, 64, 4000)]  # N, D_in, D_out


@pytest.fixture(autouse=True)
def _restore_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(matmul.VARIABLE, raising=False)
    monkeypatch.setattr(matmul, "_library", {})


@pytest.fixture
def onednn_calls(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """The shapes of the inputs of oneDNN's products."""
    calls, real = [], matmul._onednn

    def record(x, weight, bias=None):
        calls.append(x.shape)
        return real(x, weight, bias)

    monkeypatch.setattr(matmul, "_onednn", record)
    return calls


def outputs_and_gradients(product, x, weight, bias, grad):
    leaves = [each.clone().requires_grad_() for each in (x, weight, bias)]
    y = product(*leaves)
    y.backward(grad)
    return [y.detach(), *(leaf.grad for leaf in leaves)]


@needs_onednn
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", matmul.LIBRARIES)
def test_linear_and_its_gradients_agree_with_float64(shape, name, onednn_calls):
    rows, d_in, d_out = shape
    generator = torch.Generator().manual_seed(1)
    x, weight = torch.randn(rows, d_in, generator=generator), torch.randn(d_out, d_in, generator=generator)
    bias, grad = torch.randn(d_out, generator=generator), torch.randn(rows, d_out, generator=generator)
    if not matmul.use_library(name):
        pytest.skip(f"{name} is not here")
    found = outputs_and_gradients(matmul.affine, x, weight, bias, grad)
    exact = outputs_and_gradients(F.linear, x.double(), weight.double(), bias.double(), grad.double())
    # A sum of n products in any order differs by at most n roundings of the sum of their absolute values.
    a, b, g = x.abs(), weight.abs(), grad.abs()
    sizes = [a @ b.T + bias.abs(), g @ b, g.T @ a, g.sum(0)]
    for value, expected, terms, size in zip(found, exact, (d_in + 1, d_out, rows, rows), sizes, strict=True):
        assert bool(((value - expected).abs() <= terms * 2.0**-24 * size).all())
    assert len(onednn_calls) == (3 if name == "onednn" else 0)


@needs_onednn
def test_small_products_and_other_types_are_left_to_torch(onednn_calls):
    matmul.use_library("onednn")
    layer = linear(256, 1024)
    layer(torch.randn(3, 256))
    layer.double()(torch.randn(64, 256, dtype=torch.float64))
    assert not onednn_calls
    layer.float()(torch.randn(8, 8, 256))
    assert onednn_calls == [torch.Size([64, 256])]


@needs_onednn
def test_the_output_may_be_overwritten_in_place():
    matmul.use_library("onednn")
    layer, x = linear(256, 1024), torch.randn(4, 16, 256, requires_grad=True)
    layer(x).relu_().sum().backward()
    found = x.grad.clone()
    x.grad = None
    F.linear(x, layer.weight, layer.bias).relu().sum().backward()
    torch.testing.assert_close(found, x.grad)


@needs_onednn
def test_no_gradient_is_computed_that_is_not_needed(onednn_calls):
    matmul.use_library("onednn")
    layer = linear(256, 1024).requires_grad_(False)
    x = torch.randn(64, 256, requires_grad=True)
    layer(x).sum().backward()
    assert len(onednn_calls) == 2  # output and gradient of the input
    assert layer.weight.grad is None
    assert x.grad is not None


@pytest.mark.parametrize("name", matmul.LIBRARIES)
def test_the_product_for_a_weights_gradient_has_the_shape_of_the_weight_in_both_orders(name):
    if not matmul.use_library(name):
        pytest.skip(f"{name} is not here")
    for d_in, d_out in ((64, 512), (512, 64)):
        x, grad = torch.randn(300, d_in), torch.randn(300, d_out)
        torch.testing.assert_close(matmul.multiply(grad.mT, x, torch.float32), grad.T @ x, rtol=1e-4, atol=1e-4)


needs_onednn_bf16 = pytest.mark.skipif(not matmul.has_onednn_bf16(), reason="no oneDNN products in bf16 here")


@pytest.mark.parametrize("name", ["onednn", "native"])
@pytest.mark.parametrize("shape", SHAPES)
def test_bf16_products_and_their_gradients_agree_with_float64(shape, name, onednn_calls):
    if not matmul.use_library(name, torch.bfloat16):
        pytest.skip(f"{name} does not compute in bf16 here")
    rows, d_in, d_out = shape
    generator = torch.Generator().manual_seed(1)
    x, weight, bias, grad = (
        torch.randn(*size, generator=generator).bfloat16().float()  # the inputs themselves are not rounded
        for size in ((rows, d_in), (d_out, d_in), (d_out,), (rows, d_out))
    )
    with torch.autocast("cpu", torch.bfloat16):
        leaves = [each.clone().requires_grad_() for each in (x, weight, bias)]
        y = matmul.affine(*leaves)
    assert y.dtype == torch.bfloat16
    y.backward(grad.bfloat16())
    found = [y.detach(), *(leaf.grad for leaf in leaves)]
    exact = outputs_and_gradients(F.linear, x.double(), weight.double(), bias.double(), grad.double())
    for value, expected in zip(found, exact, strict=True):
        assert (value - expected).norm() < 2.0**-9 * expected.norm()  # one rounding of the result
    assert all(leaf.grad.dtype == torch.float32 for leaf in leaves)
    assert len(onednn_calls) == (name == "onednn")


@needs_onednn_bf16
def test_bf16_products_work_without_a_bias_and_without_gradients():
    x, layer = torch.randn(3, 5, 64), linear(64, 32, bias=False)
    with torch.autocast("cpu", torch.bfloat16):
        trained = layer(x)
        with torch.no_grad():
            assert torch.equal(layer(x), trained)
    assert trained.shape == (3, 5, 32)
    trained.sum().backward()
    assert layer.weight.grad.shape == layer.weight.shape


def test_a_torch_that_does_not_know_whether_onednn_has_bf16_does_not_use_it(monkeypatch):
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace(_linear_pointwise=None))
    assert not matmul.has_onednn_bf16.__wrapped__()


def test_bf16_without_onednn_is_left_to_torch(monkeypatch, onednn_calls):
    monkeypatch.setattr(matmul, "has_onednn_bf16", lambda: False)
    monkeypatch.setattr(matmul.native_kernels, "is_available", lambda: False)
    with torch.autocast("cpu", torch.bfloat16):
        y = linear(64, 32)(torch.randn(5, 64))
    assert y.dtype == torch.bfloat16
    assert not onednn_calls


def as_if_all_were_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "products", lambda dtype=torch.float32: dict.fromkeys(matmul.LIBRARIES, F.linear))


def test_the_library_is_measured_once_and_the_fastest_one_is_taken(monkeypatch):
    as_if_all_were_here(monkeypatch)
    for seconds, expected in {
        (2.0, 1.0, 9.0): "onednn",
        (1.0, 1.0, 9.0): "blas",
        (1.0, 2.0, 9.0): "blas",
        (1.0, 1.0, 1.0): "native",  # which compiles nothing
        (1.0, 2.0, 1.2): "native",
        (1.0, 2.0, 1.3): "blas",
        (3.0, 1.0, 1.3): "onednn",
    }.items():
        times = itertools.cycle(seconds)  # the BLAS, oneDNN and the native library in turn
        monkeypatch.setattr(matmul, "seconds_of", lambda call, times=times: next(times))
        monkeypatch.setattr(matmul, "_library", {})
        assert matmul.chosen_library() == expected
    monkeypatch.setattr(matmul, "_faster_library", lambda dtype: pytest.fail("measured again"))
    assert matmul.chosen_library() == "onednn"


def test_few_wrong_measurements_do_not_change_the_choice(monkeypatch):
    as_if_all_were_here(monkeypatch)
    rounds = [(2.0, 1.0, 9.0)] * (matmul.WINS - 1) + [(1.0, 1.0, 9.0)] * matmul.WINS
    times = iter([second for each in rounds for second in each * matmul.TRIALS])
    monkeypatch.setattr(matmul, "seconds_of", lambda call: next(times))
    monkeypatch.setattr(matmul, "_library", {})
    assert matmul.chosen_library() == "blas"
    assert next(times, None) is None


def test_the_choice_is_measured_on_one_thread(monkeypatch):
    threads, seen = torch.get_num_threads(), set()
    monkeypatch.setattr(matmul, "seconds_of", lambda call: seen.add(torch.get_num_threads()) or 1.0)
    monkeypatch.setattr(matmul, "_library", {})
    torch.set_num_threads(2)
    try:
        matmul.chosen_library()
        assert seen == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_a_torch_without_the_operator_uses_the_blas(monkeypatch):
    monkeypatch.setattr(matmul, "has_onednn", lambda: False)
    monkeypatch.setattr(matmul.native_kernels, "is_available", lambda: False)
    assert matmul.chosen_library() == "blas"
    assert not matmul.use_library("onednn")
    assert matmul.chosen_library() == "blas"
    torch.testing.assert_close(linear(256, 64)(torch.ones(100, 256)).shape, torch.Size([100, 64]))
    monkeypatch.setenv(matmul.VARIABLE, "onednn")
    monkeypatch.setattr(matmul, "_library", {})
    with pytest.raises(UsageError, match="no oneDNN"):
        matmul.chosen_library()
    monkeypatch.setenv(matmul.VARIABLE, "native")
    with pytest.raises(UsageError, match="MTKIT_MATMUL=native: there is no native library"):
        matmul.chosen_library()


def test_the_environment_variable_wins(monkeypatch):
    monkeypatch.setenv(matmul.VARIABLE, "blas")
    assert not matmul.use_library("onednn")
    assert matmul.chosen_library() == "blas"
    monkeypatch.setenv(matmul.VARIABLE, "mkl")
    monkeypatch.setattr(matmul, "_library", {})
    with pytest.raises(UsageError, match="MTKIT_MATMUL=mkl: must be auto, blas, onednn or native"):
        matmul.chosen_library()


@needs_onednn
def test_compiled_programs_contain_torchs_own_product():
    matmul.use_library("onednn")
    layer = linear(256, 1024)
    exported = torch.export.export(layer, (torch.randn(64, 256),))
    assert "mkldnn" not in str(exported.graph)
