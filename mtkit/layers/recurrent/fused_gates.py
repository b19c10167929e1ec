"""Elementwise part of LSTM and GRU cells with hand-written gradients: a third of the operations that autograd runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_sigmoid_backward = torch.ops.aten.sigmoid_backward
_tanh_backward = torch.ops.aten.tanh_backward


def lstm_gates(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """c' = f c + i g and h' = o tanh c', where i, f, o = sigmoid and g = tanh of the four parts of `gates`.

    Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000; no peepholes.

    Args:
        gates: [rows, 4D], before the non-linearity, in the order i, f, o, g; any float type.
        c: [rows, D]; its type is that of the arithmetic.

    Returns:
        h' and c', [rows, D] both, in the type of `c`.
    """
    h, c_next = _LSTMGates.apply(gates, c)  # type: ignore[no-untyped-call]
    return h, c_next


def gru_gates(projected: Tensor, product: Tensor, h: Tensor) -> Tensor:
    """h' = (1 - z) n + z h with n = tanh(x_n + r p_n), r = sigmoid(x_r + p_r), z = sigmoid(x_z + p_z).

    The reset gate is applied after the recurrent product, as in cuDNN and torch.

    Args:
        projected: [rows, 3D], from the input: x_r, x_z, x_n; any float type.
        product: [rows, 3D], from the state: p_r, p_z, p_n; any float type.
        h: [rows, D]; its type is that of the arithmetic.

    Returns:
        [rows, D] in the type of `h`.
    """
    h_next: Tensor = _GRUGates.apply(projected, product, h)  # type: ignore[no-untyped-call]
    return h_next


class _LSTMGates(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        width = c.size(1)
        wide = gates.to(c.dtype)
        ifo = wide[:, : 3 * width].sigmoid()
        g = wide[:, 3 * width :].tanh()
        i, f, o = ifo.chunk(3, 1)
        c_next = torch.addcmul(f * c, i, g)
        tanh_c = c_next.tanh()
        ctx.save_for_backward(ifo, g, c, tanh_c)
        ctx.dtype = gates.dtype
        return o * tanh_c, c_next

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        grad_h, grad_c_next = grads
        ifo, g, c, tanh_c = ctx.saved_tensors
        i, f, o = ifo.chunk(3, 1)
        width = c.size(1)
        # c' receives a gradient directly and through h' = o tanh c'
        grad_c = _tanh_backward(grad_h * o, tanh_c).add_(grad_c_next)
        # gradients of i, f, o first, written into one buffer; then one sigmoid derivative for all three
        grad = grad_c.new_empty(c.size(0), 4 * width)
        torch.mul(grad_c, g, out=grad[:, :width])
        torch.mul(grad_c, c, out=grad[:, width : 2 * width])
        torch.mul(grad_h, tanh_c, out=grad[:, 2 * width : 3 * width])
        grad[:, : 3 * width] = _sigmoid_backward(grad[:, : 3 * width], ifo)
        grad[:, 3 * width :] = _tanh_backward(grad_c * i, g)
        return grad.to(ctx.dtype), grad_c.mul_(f)


class _GRUGates(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, projected: Tensor, product: Tensor, h: Tensor) -> Tensor:
        width = h.size(1)
        x, p = projected.to(h.dtype), product.to(h.dtype)
        rz = torch.add(x[:, : 2 * width], p[:, : 2 * width]).sigmoid_()
        r, z = rz.chunk(2, 1)
        p_n = p[:, 2 * width :]
        n = torch.addcmul(x[:, 2 * width :], r, p_n).tanh_()
        ctx.save_for_backward(rz, n, h, p_n)
        ctx.dtypes = projected.dtype, product.dtype
        return torch.lerp(n, h, z)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (grad_h,) = grads
        rz, n, h, p_n = ctx.saved_tensors
        r, z = rz.chunk(2, 1)
        width = h.size(1)
        direct = grad_h * z  # h' = (1 - z) n + z h: this much of the gradient reaches h without passing the gates
        grad_x = grad_h.new_empty(h.size(0), 3 * width)
        grad_n = _tanh_backward(grad_h - direct, n)
        grad_x[:, 2 * width :] = grad_n
        torch.mul(grad_n, p_n, out=grad_x[:, :width])
        torch.mul(grad_h, h - n, out=grad_x[:, width : 2 * width])
        grad_x[:, : 2 * width] = _sigmoid_backward(grad_x[:, : 2 * width], rz)
        # x and p enter r and z as a sum, so their gradients differ in the part of n alone, where p is multiplied by r
        dtype_x, dtype_p = ctx.dtypes
        grad_p = grad_x.to(dtype_p, copy=True)
        grad_p[:, 2 * width :] = grad_n.mul_(r)
        return grad_x.to(dtype_x), grad_p, direct
