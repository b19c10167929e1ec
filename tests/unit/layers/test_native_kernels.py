"""Tests for mtkit/layers/native_kernels.py, against torch's own operations."""

from __future__ import annotations

import itertools

import pytest
import torch

from mtkit.layers import native_kernels
from mtkit.layers.cache import KVCache
from mtkit.layers.dropout import Dropout
from mtkit.layers.positions import Position
from mtkit.layers.recurrent.attention import _ScoreGradAccumulator, _ScoreStep, _ShareKeys
from mtkit.layers.softmax import DotProductAttention
from mtkit.training import chunked_loss

pytestmark = pytest.mark.skipif(not native_kernels.is_available(), reason="there is no native library")
DTYPES = [torch.float32, torch.bfloat16]
TOLERANCES = {torch.float32: 3e-6, torch.bfloat16: 2e-2}


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    found, expected = found.detach(), expected.detach()
    return float((found.double() - expected.double()).abs().max() / expected.double().abs().max().clamp(min=1))


@pytest.fixture(params=[1, 2])
def _threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    if not native_kernels.is_available():
        torch.set_num_threads(before)
        pytest.skip("the threads of torch cannot be used")
    yield
    torch.set_num_threads(before)


def matrix(rows: int, columns: int, dtype: torch.dtype, *, transposed: bool) -> torch.Tensor:
    return torch.randn(columns, rows).to(dtype).mT if transposed else torch.randn(rows, columns).to(dtype)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (17, 33, 65), (100, 31, 1030), (260, 200, 514)])
def test_products_of_any_layout_agree_with_float64(shape) -> None:
    """Rows, columns and sums of all sizes beside those of a tile; NaN where nothing was written."""
    rows, columns, inner = shape
    torch.manual_seed(1)
    for of_a, of_b, dtype, out_dtype in itertools.product((False, True), (False, True), DTYPES, DTYPES):
        for a_dtype, b_dtype in itertools.product({torch.float32, dtype}, {torch.float32, dtype}):
            a = matrix(rows, inner, a_dtype, transposed=of_a)
            b, bias = matrix(inner, columns, b_dtype, transposed=of_b), torch.randn(columns)
            found = native_kernels.multiply(a, b, dtype=dtype, out_dtype=out_dtype, bias=bias)
            expected = a.to(dtype).double() @ b.to(dtype).double() + bias.double()
            assert found.dtype == out_dtype
            assert error(found, expected) < (2.0**-8 if out_dtype == torch.bfloat16 else 3e-6), (of_a, of_b, dtype)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("shape", [(1, 1, 1), (17, 33, 65), (131, 40, 1030)])
def test_a_product_is_added_and_rows_of_a_transposed_operand_are_summed(shape) -> None:
    rows, columns, inner = shape
    torch.manual_seed(1)
    for dtype, a_dtype, of_b in itertools.product(DTYPES, DTYPES, (False, True)):
        if dtype == torch.float32 == a_dtype or dtype == torch.bfloat16:
            a, b = matrix(rows, inner, a_dtype, transposed=True), matrix(inner, columns, a_dtype, transposed=of_b)
            total, sums = torch.randn(rows, columns), torch.full((rows,), float("nan"))
            expected = total.double() + a.to(dtype).double() @ b.to(dtype).double()
            native_kernels.multiply(a, b, dtype=dtype, add_to=total, row_sums=sums)
            assert error(total, expected) < 3e-6
            assert error(sums, a.double().sum(1)) < 3e-6


@pytest.mark.usefixtures("_threads")
def test_products_that_share_panels_have_the_bits_of_those_that_do_not() -> None:
    torch.manual_seed(1)
    for dtype, inner, transposed in itertools.product(DTYPES, (31, 1100), (False, True)):
        b, bias, panels = (
            matrix(inner, 70, torch.float32, transposed=transposed),
            torch.randn(70),
            native_kernels.Panels(),
        )
        for rows in (3, 200, 17):
            a = torch.randn(rows, inner)
            shared = native_kernels.multiply(a, b, dtype=dtype, bias=bias, panels=panels)
            assert torch.equal(shared, native_kernels.multiply(a, b, dtype=dtype, bias=bias))
        with pytest.raises(ValueError, match="other"):
            native_kernels.multiply(torch.randn(3, 5), torch.randn(5, 70), dtype=dtype, panels=panels)


def test_the_bits_of_a_product_do_not_depend_on_threads_or_other_rows() -> None:
    torch.manual_seed(1)
    a, b = torch.randn(300, 700), torch.randn(700, 200)
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        if native_kernels.is_available():
            results.append(native_kernels.multiply(a, b, dtype=torch.float32))
    torch.set_num_threads(1)
    results.append(torch.cat([native_kernels.multiply(row[None], b, dtype=torch.float32) for row in a[:5]]))
    assert all(torch.equal(each[:5], results[0][:5]) for each in results)
    assert all(torch.equal(each, results[0]) for each in results[:-1])


def test_nan_infinity_and_a_strided_operand_pass_through_products() -> None:
    for dtype in DTYPES:
        a = torch.ones(40, 64)
        a[3, 5], a[4, 6] = float("nan"), float("inf")
        found = native_kernels.multiply(a[:, ::2], torch.ones(32, 40), dtype=dtype)
        assert found[3].equal(torch.full((40,), 32.0))  # column 5 is left out
        assert found[4].isinf().all()
        assert native_kernels.multiply(a, torch.ones(64, 40), dtype=dtype)[3].isnan().all()


MASKS = {
    "none": lambda shape: None,
    "padding": lambda shape: (torch.rand(shape[0], 1, 1, shape[3]) < 0.7).index_fill(3, torch.tensor([0]), True),
    "of each query": lambda shape: torch.rand(shape[0], 1, shape[2], shape[3]) < 0.5,
    "all hidden": lambda shape: torch.zeros(shape[0], 1, 1, shape[3], dtype=torch.bool),
}


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 16), (3, 2, 5, 7, 32), (2, 4, 20, 33, 64), (2, 1, 40, 16, 16)])
def test_attention_and_its_gradients_agree_with_the_operations_of_torch(shape, dtype, mask, monkeypatch) -> None:
    """B, H, T, S, K; with dropout, whose random numbers are the same, and gradients of the weights."""
    sentences, heads, queries, keys, width = shape
    torch.manual_seed(2)
    visible = MASKS[mask](shape)
    tensors = [torch.randn(sentences, n, heads, width).to(dtype).transpose(1, 2) for n in (queries, keys, keys)]
    grads = torch.randn(sentences, heads, queries, width).to(dtype), torch.randn(shape[:4]).to(dtype)
    pos = [torch.arange(n).expand(sentences, n) for n in (queries, keys)]
    for dropout in (0.0, 0.3):
        attention, results = DotProductAttention(Position(), dropout), []
        for is_native in (True, False):
            if not is_native:
                monkeypatch.setattr(native_kernels, "_is_used", False)
            torch.manual_seed(3)
            q, k, v = (each.detach().requires_grad_() for each in tensors)
            assert native_kernels.can_attend(q, k, v, visible) is is_native
            y, weights = attention(q, pos[0], KVCache.of(k, v, pos[1], None), visible)
            results.append((y, weights, *torch.autograd.grad([y, weights], [q, k, v], grads)))
        monkeypatch.undo()
        for found, expected in zip(*results, strict=True):
            assert found.dtype == dtype
            assert found.shape == expected.shape
            assert error(found, expected) < TOLERANCES[dtype]


def both_ways(compute, inputs, monkeypatch) -> zip:
    """Results of `compute` and gradients of the inputs, by the kernels and by torch, of the same random numbers."""
    results = []
    for is_native in (True, False):
        with monkeypatch.context() as patch:
            patch.setattr(native_kernels, "_is_used", is_native)
            torch.manual_seed(3)
            tensors = [each.detach().requires_grad_() for each in inputs]
            y = compute(*tensors)
            results.append(
                [y, *torch.autograd.grad(y, tensors, torch.cos(torch.arange(y.numel())).view_as(y).to(y.dtype))]
            )
    return zip(*results, strict=True)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 5, 64), (33, 2048)])
def test_dropout_of_sums_and_of_relu_agrees_with_the_operations_of_torch(shape, dtype, p, monkeypatch) -> None:
    torch.manual_seed(5)
    x, dropout = torch.randn(shape).to(dtype), Dropout(p)
    base = torch.randn(shape)
    for compute, inputs in (
        (dropout, [x]),
        (dropout.of_relu, [x]),
        (dropout.of_relu, [torch.randn(shape).mT.to(dtype)]),
        (lambda x, base: dropout.add(base, x), [x, base]),
        (lambda x, base: dropout.add(base, x), [x, base.to(dtype)]),
    ):
        for found, expected in both_ways(compute, inputs, monkeypatch):
            assert found.dtype == expected.dtype
            assert found.shape == expected.shape
            assert error(found, expected) < TOLERANCES[dtype]
            assert len(inputs) > 1 or torch.equal(found == 0, expected == 0)


def test_dropout_of_a_shape_or_a_type_that_the_kernel_does_not_read_is_left_to_torch() -> None:
    x = torch.randn(3, 5, requires_grad=True)
    assert native_kernels.can_drop(x, x.to(torch.bfloat16))
    assert not native_kernels.can_drop(x, x[:1])
    assert not native_kernels.can_drop(x.double())
    assert Dropout(0.5).add(x[:1], x).shape == x.shape
    assert Dropout(0.0).of_relu(torch.tensor([float("nan"), -1.0])).isnan().tolist() == [True, False]


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1, 16), (3, 1, 7, 32), (2, 3, 20, 64)])
def test_additive_scores_and_their_gradients_agree_with_the_operations_of_torch(shape, dtype, monkeypatch) -> None:
    """B, W, S, A; two steps, whose gradients of keys and v are added."""
    sentences, queries, positions, width = shape

    def compute(first, second, keys, v):
        accumulator = _ScoreGradAccumulator()
        keys, v = _ShareKeys.apply(keys, v, accumulator)
        return torch.cat([_ScoreStep.apply(query, keys, v, accumulator) for query in (first, second)])

    torch.manual_seed(6)
    shapes = [(sentences, queries, width)] * 2 + [(sentences, positions, width), (width,)]
    inputs = [torch.randn(each).mul(10 ** torch.empty(each).uniform_(-4, 1)).to(dtype) for each in shapes]
    for found, expected in both_ways(compute, inputs, monkeypatch):
        assert found.dtype == expected.dtype
        assert error(found, expected) < TOLERANCES[dtype] * 2


def test_attention_that_the_kernel_does_not_compute_is_left_to_torch() -> None:
    q, k = torch.randn(2, 4, 5, 32, requires_grad=True), torch.randn(2, 4, 6, 32)
    assert native_kernels.can_attend(q, k, k, None)
    assert not native_kernels.can_attend(q.detach(), k, k, None)
    assert not native_kernels.can_attend(q, k[:, :2], k[:, :2], None)  # grouped heads
    assert not native_kernels.can_attend(q[..., :9], k[..., :9], k[..., :9], None)
    assert not native_kernels.can_attend(q, k, k[..., :16], None)
    assert not native_kernels.can_attend(q.double(), k.double(), k.double(), None)
    assert not native_kernels.can_attend(q, k, k, torch.zeros(2, 1, 1, 6))  # a mask that is added
    with torch.no_grad():
        assert not native_kernels.can_attend(q, k, k, None)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_softmax_of_the_loss_agrees_with_the_operations_of_torch(dtype, monkeypatch) -> None:
    torch.manual_seed(4)
    for rows, columns in ((1, 1), (3, 7), (50, 1000), (9, 4097)):
        logits, target = (5 * torch.randn(rows, columns)).to(dtype), torch.randint(columns, (rows,))
        for bias in (None, torch.randn(columns)):
            found, expected = logits.clone(), logits.clone()
            result = chunked_loss.softmax_(found, bias, target)
            with monkeypatch.context() as patch:
                patch.setattr(native_kernels, "_is_used", False)
                reference = chunked_loss.softmax_(expected, bias, target)
            assert error(found, expected) < (2.0**-8 if dtype == torch.bfloat16 else 3e-6)
            for one, other in zip(result, reference, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_logits_that_are_not_finite_have_no_finite_loss() -> None:
    for value in (float("nan"), float("inf")):
        logits = torch.randn(4, 100)
        logits[2, 50] = value
        result = chunked_loss.softmax_(logits, None, torch.tensor([1, 2, 3, 4]))
        assert not result.loss(0.1).isfinite()
        assert logits[[0, 1, 3]].isfinite().all()
