"""Products that every step of a loop repeats with the same weights, whose weight gradient is one product after it.

Automatic differentiation would compute, and add up, a gradient of the size of the weights at every step. Here a step
leaves what it was given and the gradient of what it gave, and the gradient of the weights is a single large product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from mtkit.layers.precision import compute_dtype


class Product(Protocol):
    """What a linear layer is inside a loop."""

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """x [rows, d_in] -> x W^T + b [rows, d_out], plus `add` [rows, d_out] if that is given."""
        ...


class Uses:
    """For each step of one loop, what it was given and the gradient of what it gave."""

    def __init__(self) -> None:
        self.pairs: dict[int, tuple[Tensor, Tensor]] = {}
        self.steps = 0

    def open(self) -> int:
        """The number of the next step."""
        self.steps += 1
        return self.steps - 1

    def collect(self, dim: int) -> tuple[Tensor, Tensor]:
        """All steps' tensors joined along `dim`, in order of the steps; then nothing is left here."""
        given, grads = zip(*(self.pairs[step] for step in sorted(self.pairs)), strict=True)
        self.pairs.clear()
        return torch.cat(given, dim), torch.cat(grads, dim)


def joined(*parts: Tensor) -> Tensor:
    """Parts [..., any width] side by side, in the type that products have here."""
    dtype = compute_dtype(parts[0])
    return torch.cat([part.to(dtype) for part in parts], -1)


class _Share(torch.autograd.Function):
    """Hand out weights to a loop; when the gradients of all steps are there, compute that of the weights."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, uses: Uses) -> tuple[Tensor, Tensor | None]:
        ctx.set_materialize_grads(False)
        ctx.uses, ctx.has_bias = uses, bias is not None
        return weight.view_as(weight), None if bias is None else bias.view_as(bias)

    @staticmethod
    def backward(ctx: Any, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        if not ctx.uses.pairs:
            return None, None, None
        x, grad = ctx.uses.collect(0)
        return grad.mT @ x, grad.sum(0) if ctx.has_bias else None, None


class _Product(torch.autograd.Function):
    """One step's x W^T + b + add."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, add: Tensor | None, uses: Uses) -> Tensor:
        ctx.uses, ctx.step, ctx.add_dtype = uses, uses.open(), None if add is None else add.dtype
        ctx.x_dtype = x.dtype
        x = x.to(weight.dtype)
        ctx.save_for_backward(x, weight)
        if add is None:
            return x @ weight.mT if bias is None else torch.addmm(bias, x, weight.mT)
        y = torch.addmm(add.to(weight.dtype), x, weight.mT)
        return y if bias is None else y + bias

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, weight = ctx.saved_tensors
        ctx.uses.pairs[ctx.step] = (x.detach(), grad)
        grad_add = grad.to(ctx.add_dtype) if ctx.needs_input_grad[3] else None
        return (grad @ weight).to(ctx.x_dtype), None, None, grad_add, None


def loop_product(layer: nn.Module) -> Product:
    """A linear layer as every step of a loop shall call it; use one for each loop.

    Anything but a plain `nn.Linear` (an adapted or quantised one) is called as it is, and so is every layer where no
    gradient is asked for.
    """
    if type(layer) is not nn.Linear or not torch.is_grad_enabled() or not layer.weight.requires_grad:
        return _plain(layer)
    uses = Uses()
    dtype = compute_dtype(layer.weight)
    bias = None if layer.bias is None else layer.bias.to(dtype)
    weight, bias = _Share.apply(layer.weight.to(dtype), bias, uses)  # type: ignore[no-untyped-call]

    def product(x: Tensor, add: Tensor | None = None) -> Tensor:
        return _Product.apply(x, weight, bias, add, uses)  # type: ignore[no-untyped-call, no-any-return]

    return product


def _plain(layer: Callable[[Tensor], Tensor]) -> Product:
    def product(x: Tensor, add: Tensor | None = None) -> Tensor:
        return layer(x) if add is None else layer(x) + add

    return product


def loop_batched_product(right: Tensor) -> Callable[[Tensor], Tensor]:
    """Left factors [B, W, N] -> their products with one `right` [B, N, M], in its type; use one for each loop."""
    if not torch.is_grad_enabled() or not right.requires_grad:
        return lambda left: left.to(right.dtype) @ right
    uses = Uses()
    shared = _ShareRight.apply(right, uses)  # type: ignore[no-untyped-call]
    return lambda left: _BatchedProduct.apply(left.to(right.dtype), shared, uses)  # type: ignore[no-untyped-call]


class _ShareRight(torch.autograd.Function):
    """Hand out the right factor to a loop; its gradient is one batched product after it."""

    @staticmethod
    def forward(ctx: Any, right: Tensor, uses: Uses) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.uses = uses
        return right.view_as(right)

    @staticmethod
    def backward(ctx: Any, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        if not ctx.uses.pairs:
            return None, None
        left, grad = ctx.uses.collect(1)  # [B, T·W, N], [B, T·W, M]
        return left.mT @ grad, None


class _BatchedProduct(torch.autograd.Function):
    """One step's product of left [B, W, N] and right [B, N, M]."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, uses: Uses) -> Tensor:
        ctx.uses, ctx.step = uses, uses.open()
        ctx.save_for_backward(left, right)
        return left @ right

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        left, right = ctx.saved_tensors
        ctx.uses.pairs[ctx.step] = (left.detach(), grad)
        return grad @ right.mT, None, None
