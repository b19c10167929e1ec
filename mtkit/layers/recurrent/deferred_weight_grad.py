"""Weight gradients of a time loop, computed as one large product after the loop instead of one small one per step.

A recurrent layer multiplies by the same matrix W at each of T steps. Autograd would compute a gradient of the size of W
at each step and add up T of them. Here a step only stores its input and the gradient of its output:

    forward     W -- _ShareWeight --+--------------+--------------+
                                    |              |              |
                          x_1 -> _LinearStep    _LinearStep    _LinearStep
                                    |              |              |
                                   y_1            y_2            y_3        (x_{t+1} depends on y_t)

    backward                      dy_1           dy_2           dy_3
                                    |              |              |          each step returns dx_t = dy_t W
                                 (x_1, dy_1)    (x_2, dy_2)    (x_3, dy_3)   and stores this pair in a GradAccumulator
                                    |              |              |
                dW = sum_t dy_t^T x_t = [dy_1; dy_2; dy_3]^T [x_1; x_2; x_3], one product, in _ShareWeight.backward

The GradAccumulator is mutable state in the autograd graph, which no tensor shows. It is correct because

- autograd runs `_ShareWeight.backward` after the backward of all steps: they use its output, although the gradient that
  they return for W is None;
- steps are numbered in the forward pass and pairs are stored by number, so that a second backward pass over the same
  graph, or one that did not need dW and left its pairs behind, is overwritten and not counted twice;
- each loop has an accumulator of its own: `recurrent_linear` and `recurrent_bmm` are called once per loop.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from mtkit.layers.matmul import affine, compute_dtype, multiply
from mtkit.layers.native_kernels import Panels
from mtkit.layers.projections import Projection


class GradAccumulator:
    """Inputs and output gradients of the steps of one loop."""

    def __init__(self) -> None:
        self.pairs: dict[int, tuple[Tensor, Tensor]] = {}
        self.panels = Panels(), Panels()  # of the weight, for the products of both passes
        self.step_numbers = count()  # of the forward pass

    def flush(self, dim: int) -> tuple[Tensor, Tensor]:
        """Concatenate the inputs and the gradients of all steps along `dim`, in order of the steps, and clear them."""
        inputs, grads = zip(*(self.pairs[step] for step in sorted(self.pairs)), strict=True)
        self.pairs.clear()
        return torch.cat(inputs, dim), torch.cat(grads, dim)


class LinearFn(Protocol):
    """A linear layer for use inside a loop."""

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """x [rows, d_in] -> x W^T + b + add [rows, d_out]; None adds nothing."""
        ...


def recurrent_linear(layer: nn.Module) -> LinearFn:
    """Return a linear layer as a function for the steps of one loop, with deferred weight gradient.

    Anything but a plain `Projection` (an adapted or quantised layer) is called as it is, and so is every layer if no
    gradient of its weight is needed.
    """
    if type(layer) is not Projection or not torch.is_grad_enabled() or not layer.weight.requires_grad:
        return lambda x, add=None: layer(x) if add is None else layer(x) + add
    accumulator = GradAccumulator()
    dtype = compute_dtype(layer.weight)
    bias = None if layer.bias is None else layer.bias.to(dtype)
    weight, bias = _ShareWeight.apply(layer.weight.to(dtype), bias, accumulator)  # type: ignore[no-untyped-call]

    def product(x: Tensor, add: Tensor | None = None) -> Tensor:
        return _LinearStep.apply(x, weight, bias, add, accumulator)  # type: ignore[no-untyped-call, no-any-return]

    return product


class _ShareWeight(torch.autograd.Function):
    """Identity of weight and bias; its backward runs after that of all steps and computes their gradients."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, bias: Tensor | None, accumulator: GradAccumulator
    ) -> tuple[Tensor, Tensor | None]:
        ctx.set_materialize_grads(False)  # the steps return no gradient here
        ctx.accumulator, ctx.has_bias = accumulator, bias is not None
        return weight.view_as(weight), None if bias is None else bias.view_as(bias)

    @staticmethod
    def backward(ctx: Any, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        if not ctx.accumulator.pairs:
            return None, None, None
        x, grad = ctx.accumulator.flush(0)  # [T·rows, d_in], [T·rows, d_out]
        return multiply(grad.mT, x, grad.dtype, grad.dtype), grad.sum(0) if ctx.has_bias else None, None


class _LinearStep(torch.autograd.Function):
    """x W^T + b + add of one step."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, add: Tensor | None, accumulator: GradAccumulator
    ) -> Tensor:
        ctx.accumulator, ctx.step = accumulator, next(accumulator.step_numbers)
        ctx.x_dtype, ctx.add_dtype = x.dtype, None if add is None else add.dtype
        x = x.to(weight.dtype)
        ctx.save_for_backward(x, weight)
        y = affine(x, weight, bias, accumulator.panels[0])
        return y if add is None else y.add_(add.to(weight.dtype))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, weight = ctx.saved_tensors
        ctx.accumulator.pairs[ctx.step] = (x.detach(), grad)
        grad_add = grad.to(ctx.add_dtype) if ctx.needs_input_grad[3] else None
        grad_x = multiply(grad, weight, grad.dtype, ctx.x_dtype, ctx.accumulator.panels[1]).to(ctx.x_dtype)
        return grad_x, None, None, grad_add, None


def recurrent_bmm(right: Tensor) -> Callable[[Tensor], Tensor]:
    """Return left [B, W, N] -> left @ right [B, W, M] for the steps of one loop, with deferred gradient of `right`.

    Args:
        right: [B, N, M], the same at all steps; products have its type.
    """
    if not torch.is_grad_enabled() or not right.requires_grad:
        return lambda left: left.to(right.dtype) @ right
    accumulator = GradAccumulator()
    shared = _ShareRight.apply(right, accumulator)  # type: ignore[no-untyped-call]
    return lambda left: _BmmStep.apply(left.to(right.dtype), shared, accumulator)  # type: ignore[no-untyped-call]


class _ShareRight(torch.autograd.Function):
    """Identity of the right factor; its backward runs after that of all steps and computes its gradient."""

    @staticmethod
    def forward(ctx: Any, right: Tensor, accumulator: GradAccumulator) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.accumulator = accumulator
        return right.view_as(right)

    @staticmethod
    def backward(ctx: Any, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        if not ctx.accumulator.pairs:
            return None, None
        left, grad = ctx.accumulator.flush(1)  # [B, T·W, N], [B, T·W, M]
        return left.mT @ grad, None


class _BmmStep(torch.autograd.Function):
    """Product of left [B, W, N] and right [B, N, M] of one step."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, accumulator: GradAccumulator) -> Tensor:
        ctx.accumulator, ctx.step = accumulator, next(accumulator.step_numbers)
        ctx.save_for_backward(left, right)
        return left @ right

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        left, right = ctx.saved_tensors
        ctx.accumulator.pairs[ctx.step] = (left.detach(), grad)
        return grad @ right.mT, None, None


def concat_features(*tensors: Tensor) -> Tensor:
    """Concatenate tensors [..., any width] along the last axis, in the type of matrix products (see compute_dtype)."""
    dtype = compute_dtype(tensors[0])
    return torch.cat([tensor.to(dtype) for tensor in tensors], -1)
