"""Recurrent cells: LSTM, GRU and the plain tanh unit.

The elementwise part of LSTM and GRU has hand-written gradients: a third of the operations that autograd runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mtkit.layers.cache import BatchedState
from mtkit.layers.dropout import VariationalDropout
from mtkit.layers.projections import linear
from mtkit.layers.recurrent.deferred_weight_grad import recurrent_linear

if TYPE_CHECKING:
    from mtkit.layers.recurrent.config import CellConfigBase


@dataclass(frozen=True)
class CellState(BatchedState):
    """State of a cell: its output h [rows, D] and, in an LSTM, the cell state c [rows, D]."""

    h: Tensor
    c: Tensor | None = None

    def where(self, real: Tensor, otherwise: CellState) -> CellState:
        """Return this state in the rows where real [rows, 1] is True, and `otherwise` in the others."""
        if self.c is None or otherwise.c is None:
            return CellState(torch.where(real, self.h, otherwise.h))
        return CellState(torch.where(real, self.h, otherwise.h), torch.where(real, self.c, otherwise.c))


StepFn = Callable[[Tensor, CellState], CellState]  # (projected input [rows, gates·D], state) -> next state


class Cell(nn.Module, ABC):
    """Transition of a recurrent layer: next state = f(input_proj(x), state).

    `input_proj` is applied outside the cell, so that a whole sequence takes one product.
    """

    input_proj: nn.Linear  # [gates·D, d_in]
    has_cell_state = False  # whether states have a c

    def __init__(self, config: CellConfigBase, d_in: int, d_state: int, state_dropout: float) -> None:
        super().__init__()
        self.d_state = d_state
        self.state_dropout = VariationalDropout(state_dropout)  # of h, in the recurrent product only

    @abstractmethod
    def make_step_fn(self) -> StepFn:
        """Return the transition for the steps of one loop."""

    def zero_state(self, x: Tensor) -> CellState:
        """Return the initial state for x [rows, ...], in its type."""
        zero = x.new_zeros(x.size(0), self.d_state)
        return CellState(zero, zero if self.has_cell_state else None)


class LSTMCell(Cell):
    """Long short-term memory; gates in the order input, forget, output, candidate.

    Hochreiter & Schmidhuber 1997 with forget gates (Gers et al. 2000). Initially recurrent weights are orthogonal, the
    bias of the forget gate is 1 (Jozefowicz et al. 2015, sec. 2.2), input weights are Xavier-uniform.
    """

    has_cell_state = True

    def __init__(self, config: CellConfigBase, d_in: int, d_state: int, state_dropout: float) -> None:
        super().__init__(config, d_in, d_state, state_dropout)
        self.input_proj = linear(d_in, 4 * d_state)
        self.recurrent = linear(d_state, 4 * d_state, bias=False)
        init_recurrent(self.input_proj, self.recurrent)
        nn.init.ones_(self.input_proj.bias[d_state : 2 * d_state])

    def make_step_fn(self) -> StepFn:
        """See Cell."""
        to_gates, drop = recurrent_linear(self.recurrent), self.state_dropout.make_step_fn()

        def step(projected: Tensor, state: CellState) -> CellState:
            if state.c is None:
                raise ValueError("state of another cell: an LSTM needs c")
            gates = to_gates(drop(state.h), projected)  # [rows, 4D]
            return CellState(*_LSTMGates.apply(gates, state.c))  # type: ignore[no-untyped-call]

        return step


class GRUCell(Cell):
    """Gated recurrent unit; the reset gate is applied after the recurrent product, as in torch and cuDNN.

    Cho et al. 2014. One recurrent product per step. Gates in the order reset, update, candidate; recurrent weights are
    orthogonal initially. h' = (1 - z) n + z h, as in torch; the z of the paper is 1 - z here.
    """

    def __init__(self, config: CellConfigBase, d_in: int, d_state: int, state_dropout: float) -> None:
        super().__init__(config, d_in, d_state, state_dropout)
        self.input_proj = linear(d_in, 3 * d_state)
        self.recurrent = linear(d_state, 3 * d_state)
        init_recurrent(self.input_proj, self.recurrent)

    def make_step_fn(self) -> StepFn:
        """See Cell."""
        to_gates, drop = recurrent_linear(self.recurrent), self.state_dropout.make_step_fn()

        def step(projected: Tensor, state: CellState) -> CellState:
            product = to_gates(drop(state.h))  # [rows, 3D]
            return CellState(_GRUGates.apply(projected, product, state.h))  # type: ignore[no-untyped-call]

        return step


class ResetBeforeGRUCell(Cell):
    """Gated recurrent unit of Bahdanau et al. 2015: the reset gate is applied before the recurrent product.

    Appendix A.1.1: n = tanh(W x + U (r h)), two recurrent products per step. https://arxiv.org/abs/1409.0473
    h' = (1 - z) n + z h; the z of the paper is 1 - z here.
    """

    def __init__(self, config: CellConfigBase, d_in: int, d_state: int, state_dropout: float) -> None:
        super().__init__(config, d_in, d_state, state_dropout)
        self.input_proj = linear(d_in, 3 * d_state)
        self.recurrent_gates = linear(d_state, 2 * d_state, bias=False)
        self.recurrent_candidate = linear(d_state, d_state, bias=False)
        init_recurrent(self.input_proj, self.recurrent_gates)
        nn.init.orthogonal_(self.recurrent_candidate.weight)

    def make_step_fn(self) -> StepFn:
        """See Cell."""
        to_gates, to_candidate = recurrent_linear(self.recurrent_gates), recurrent_linear(self.recurrent_candidate)
        width, drop = self.d_state, self.state_dropout.make_step_fn()

        def step(projected: Tensor, state: CellState) -> CellState:
            h = drop(state.h)
            x_gates, x_candidate = projected[:, : 2 * width], projected[:, 2 * width :]
            r, z = to_gates(h, x_gates).to(state.h.dtype).sigmoid().chunk(2, 1)  # [rows, D] each
            n = to_candidate(r * h, x_candidate).to(state.h.dtype).tanh()
            return CellState(torch.lerp(n, state.h, z))

        return step


class TanhCell(Cell):
    """h' = tanh(W x + U h + b): the plain recurrent unit, whose gradient vanishes or explodes over distance.

    Elman 1990, https://doi.org/10.1207/s15516709cog1402_1 ; Bengio et al. 1994 on the gradient. U is orthogonal
    initially.
    """

    def __init__(self, config: CellConfigBase, d_in: int, d_state: int, state_dropout: float) -> None:
        super().__init__(config, d_in, d_state, state_dropout)
        self.input_proj = linear(d_in, d_state)
        self.recurrent = linear(d_state, d_state, bias=False)
        init_recurrent(self.input_proj, self.recurrent)

    def make_step_fn(self) -> StepFn:
        """See Cell."""
        product, drop = recurrent_linear(self.recurrent), self.state_dropout.make_step_fn()

        def step(projected: Tensor, state: CellState) -> CellState:
            return CellState(product(drop(state.h), projected).to(state.h.dtype).tanh())

        return step


@torch.no_grad()
def init_recurrent(input_proj: nn.Linear, recurrent: nn.Linear) -> None:
    """Initialise each gate separately: input weights Xavier-uniform, recurrent weights orthogonal (Saxe et al. 2014).

    Over all gates at once the fan-out would be that of the concatenated matrix, and orthogonality would not hold for
    a single gate.
    """
    width = recurrent.in_features
    for layer, init in ((input_proj, nn.init.xavier_uniform_), (recurrent, nn.init.orthogonal_)):
        for begin in range(0, layer.out_features, width):
            init(layer.weight[begin : begin + width])


class LayerNormLSTMCell(Cell):
    """gates = LN(U h) + LN(W x); c' = f c + i g and h' = o tanh(LN(c')). The paper's supplementary material.

    Gates in the order input, forget, output, candidate, normalised together. The forget gate's bias is 1 initially.
    """

    has_cell_state = True

    def __init__(self, config: CellConfigBase, d_in: int, d_state: int, state_dropout: float) -> None:
        super().__init__(config, d_in, d_state, state_dropout)
        self.input_proj = linear(d_in, 4 * d_state, bias=False)
        self.recurrent = linear(d_state, 4 * d_state, bias=False)
        self.input_norm = nn.LayerNorm(4 * d_state)
        self.recurrent_norm = nn.LayerNorm(4 * d_state)
        self.cell_norm = nn.LayerNorm(d_state)
        init_recurrent(self.input_proj, self.recurrent)
        nn.init.ones_(self.input_norm.bias[d_state : 2 * d_state])

    def make_step_fn(self) -> StepFn:
        """See Cell."""
        to_gates, drop = recurrent_linear(self.recurrent), self.state_dropout.make_step_fn()
        width = self.d_state

        def step(projected: Tensor, state: CellState) -> CellState:
            if state.c is None:
                raise ValueError("state of another cell: an LSTM needs c")
            gates = (self.recurrent_norm(to_gates(drop(state.h))) + self.input_norm(projected)).to(state.c.dtype)
            i, f, o = gates[:, : 3 * width].sigmoid().chunk(3, 1)  # [rows, D] each
            c = f * state.c + i * gates[:, 3 * width :].tanh()
            return CellState(o * self.cell_norm(c).to(c.dtype).tanh(), c)

        return step


class LayerNormGRUCell(Cell):
    """r and z from LN(U h) + LN(W x); n = tanh(LN(W' x) + r LN(U' h)); h' = (1 - z) n + z h.

    The paper's supplementary material, whose z is 1 - z here. The reset gate is applied after the product and its norm.
    """

    def __init__(self, config: CellConfigBase, d_in: int, d_state: int, state_dropout: float) -> None:
        super().__init__(config, d_in, d_state, state_dropout)
        self.input_proj = linear(d_in, 3 * d_state, bias=False)
        self.recurrent = linear(d_state, 3 * d_state, bias=False)
        # the norm of the two gates and that of the candidate
        self.input_norms = nn.ModuleList([nn.LayerNorm(2 * d_state), nn.LayerNorm(d_state)])
        self.recurrent_norms = nn.ModuleList([nn.LayerNorm(2 * d_state), nn.LayerNorm(d_state)])
        init_recurrent(self.input_proj, self.recurrent)

    def make_step_fn(self) -> StepFn:
        """See Cell."""
        to_gates, drop = recurrent_linear(self.recurrent), self.state_dropout.make_step_fn()

        def step(projected: Tensor, state: CellState) -> CellState:
            x = self._normalise(projected, self.input_norms)
            p = self._normalise(to_gates(drop(state.h)), self.recurrent_norms)
            return CellState(_GRUGates.apply(x, p, state.h))  # type: ignore[no-untyped-call]

        return step

    def _normalise(self, gates: Tensor, norms: nn.ModuleList) -> Tensor:
        """[rows, 3D] -> [rows, 3D]."""
        parts = torch.split(gates, [2 * self.d_state, self.d_state], 1)
        return torch.cat([norm(part) for norm, part in zip(norms, parts, strict=True)], 1)


_sigmoid_backward = torch.ops.aten.sigmoid_backward
_tanh_backward = torch.ops.aten.tanh_backward


class _LSTMGates(torch.autograd.Function):
    """h' = o tanh c' and c' = f c + i g, where i, f, o = sigmoid and g = tanh of the four parts of `gates`.

    Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000; no peepholes. `gates` [rows, 4D], before the
    non-linearity, are in the order i, f, o, g and of any float type. c [rows, D] has the type of the arithmetic and of
    the results, h' and c' [rows, D].
    """

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
    """h' = (1 - z) n + z h with n = tanh(x_n + r p_n), r = sigmoid(x_r + p_r), z = sigmoid(x_z + p_z).

    The reset gate is applied after the recurrent product, as in cuDNN and torch. `projected` [rows, 3D] are x_r, x_z,
    x_n, from the input, and `product` [rows, 3D] are p_r, p_z, p_n, from the state; both of any float type. h [rows, D]
    has the type of the arithmetic and of the result h' [rows, D].
    """

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
