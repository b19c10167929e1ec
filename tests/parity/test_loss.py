"""The chunked loss against torch's cross-entropy and against the KL form of the Transformer paper."""

import pytest
import torch
import torch.nn.functional as F

from mtkit.training import chunked_loss
from mtkit.training.chunked_loss import label_smoothed_loss

N, D, V = 37, 8, 19


def inputs(dtype=torch.float64):
    torch.manual_seed(3)
    hidden = torch.randn(N, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    bias = torch.randn(V, dtype=dtype, requires_grad=True)
    return hidden, weight, bias, torch.randint(V, (N,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("chunk", [1, 5, 512])
@pytest.mark.parametrize("with_bias", [True, False])
def test_value_and_gradients_equal_torch(monkeypatch, smoothing, chunk, with_bias):
    monkeypatch.setattr(chunked_loss, "CHUNK_SIZE", chunk)
    hidden, weight, bias, target = inputs()
    wanted = [hidden, weight, bias] if with_bias else [hidden, weight]
    used = bias if with_bias else None
    ours = 0.25 * label_smoothed_loss(hidden, weight, used, target, smoothing=smoothing)
    theirs = 0.25 * F.cross_entropy(F.linear(hidden, weight, used), target, label_smoothing=smoothing, reduction="sum")
    assert torch.allclose(ours, theirs, rtol=1e-12)
    for a, b in zip(torch.autograd.grad(ours, wanted), torch.autograd.grad(theirs, wanted), strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("block", [1, V, 3 * V, 10**6])
def test_value_and_gradients_do_not_depend_on_the_block(monkeypatch, block):
    monkeypatch.setattr(chunked_loss, "BLOCK_SIZE", block)
    hidden, weight, bias, target = inputs()
    ours = label_smoothed_loss(hidden, weight, bias, target, smoothing=0.1)
    theirs = F.cross_entropy(F.linear(hidden, weight, bias), target, label_smoothing=0.1, reduction="sum")
    assert torch.allclose(ours, theirs, rtol=1e-12)
    for a, b in zip(*(torch.autograd.grad(loss, [hidden, weight, bias]) for loss in (ours, theirs)), strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("frozen", [{1}, {2}, {1, 2}])
def test_frozen_weights_have_no_gradient_and_change_no_other(monkeypatch, frozen):
    made = []

    def multiply(a, b, *_, **__):
        made.append((a.size(0), b.size(1)))
        return a @ b

    def add_product(total, a, b, *_):
        total += multiply(a, b)

    monkeypatch.setattr(chunked_loss, "multiply", multiply)
    monkeypatch.setattr(chunked_loss, "add_product", add_product)
    hidden, weight, bias, target = inputs()
    label_smoothed_loss(hidden, weight, bias, target, smoothing=0.1).backward()
    expected, made[:] = [each.grad for each in (hidden, weight, bias)], []
    hidden, weight, bias, target = inputs()
    for index in frozen:
        (hidden, weight, bias)[index].requires_grad_(False)
    label_smoothed_loss(hidden, weight, bias, target, smoothing=0.1).backward()
    for index, each in enumerate((hidden, weight, bias)):
        assert each.grad is None if index in frozen else torch.equal(each.grad, expected[index])
    assert (tuple(weight.shape) in made) == (1 not in frozen)


def test_differs_from_the_kl_form_by_the_targets_entropy():
    hidden, weight, bias, target = inputs()
    e = 0.1
    wanted = torch.full((N, V), e / V, dtype=torch.float64)
    wanted[torch.arange(N), target] += 1 - e
    kl = F.kl_div((hidden @ weight.T + bias).log_softmax(-1), wanted, reduction="sum")
    entropy = -(wanted * wanted.log()).sum()
    assert torch.allclose(label_smoothed_loss(hidden, weight, bias, target, smoothing=e), kl + entropy)


def test_without_gradient_gives_the_same_value():
    hidden, weight, bias, target = inputs()
    with torch.no_grad():
        quiet = label_smoothed_loss(hidden, weight, bias, target, smoothing=0.1)
    assert quiet == label_smoothed_loss(hidden, weight, bias, target, smoothing=0.1)


def test_large_logits_do_not_overflow():
    hidden = torch.full((2, 1), 1e4)
    weight = torch.tensor([[1.0], [0.0]])
    assert label_smoothed_loss(hidden, weight, None, torch.tensor([0, 1]), smoothing=0.0) == 1e4


def test_bf16_autocast_is_near_float32():
    hidden, weight, bias, target = inputs(torch.float32)
    exact = label_smoothed_loss(hidden, weight, bias, target, smoothing=0.1)
    with torch.autocast("cpu", torch.bfloat16):
        rough = label_smoothed_loss(hidden, weight, bias, target, smoothing=0.1)
    assert abs(rough - exact) / exact < 1e-2
    (gradient,) = torch.autograd.grad(rough, [weight])
    assert gradient.dtype == torch.float32


def test_bf16_autocast_keeps_the_target_in_float32():
    """Rounding 0.9 to bf16 alone would change the gradients by 2^-9 of their norm; only probabilities are rounded."""
    torch.manual_seed(3)
    hidden = torch.randn(1000, 32).bfloat16().float().requires_grad_()
    weight = (0.2 * torch.randn(3000, 32)).bfloat16().float().requires_grad_()
    target = torch.randint(3000, (1000,))
    with torch.autocast("cpu", torch.bfloat16):
        ours = label_smoothed_loss(hidden, weight, None, target, smoothing=0.1)
    logits = hidden.double() @ weight.double().T
    exact = F.cross_entropy(logits, target, label_smoothing=0.1, reduction="sum")
    assert torch.allclose(ours.double(), exact, rtol=1e-4)
    gradients = (torch.autograd.grad(loss, [hidden, weight]) for loss in (ours, exact))
    for a, b in zip(*gradients, strict=True):
        assert torch.linalg.norm(a - b) < 2**-10 * torch.linalg.norm(b)


def test_no_tokens_give_zero():
    _, weight, bias, _ = inputs()
    none = torch.zeros(0, D, dtype=torch.float64, requires_grad=True)
    total = label_smoothed_loss(none, weight, bias, torch.zeros(0, dtype=torch.int64), smoothing=0.1)
    total.backward()
    assert total == 0
    assert weight.grad is not None
    assert weight.grad.eq(0).all()


def test_smoothing_outside_its_range_is_rejected():
    hidden, weight, bias, target = inputs()
    with pytest.raises(ValueError, match=r"1\.0"):
        label_smoothed_loss(hidden, weight, bias, target, smoothing=1.0)
