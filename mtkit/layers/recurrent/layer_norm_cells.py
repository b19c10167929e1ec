"""LSTM and GRU cells with layer norm, which keeps the size of states constant along a sequence.

Ba, Kiros & Hinton 2016. https://arxiv.org/abs/1607.06450 Input projections have no bias, since the norms have one.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mtkit.layers.projections import linear
from mtkit.layers.recurrent.cells import Cell, CellState, StepFn, init_recurrent
from mtkit.layers.recurrent.deferred_weight_grad import recurrent_linear
from mtkit.layers.recurrent.fused_gates import gru_gates


class LayerNormLSTMCell(Cell):
    """gates = LN(U h) + LN(W x); c' = f c + i g and h' = o tanh(LN(c')). The paper's supplementary material.

    Gates in the order input, forget, output, candidate, normalised together. The forget gate's bias is 1 initially.
    """

    has_cell_state = True

    def __init__(self, d_in: int, d_state: int, state_dropout: float = 0.0) -> None:
        super().__init__(d_state, state_dropout)
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

    def zero_state(self, x: Tensor) -> CellState:
        """See Cell."""
        zero = x.new_zeros(x.size(0), self.d_state)
        return CellState(zero, zero)


class LayerNormGRUCell(Cell):
    """r and z from LN(U h) + LN(W x); n = tanh(LN(W' x) + r LN(U' h)); h' = (1 - z) n + z h.

    The paper's supplementary material, whose z is 1 - z here. The reset gate is applied after the product and its norm.
    """

    def __init__(self, d_in: int, d_state: int, state_dropout: float = 0.0) -> None:
        super().__init__(d_state, state_dropout)
        self.input_proj = linear(d_in, 3 * d_state, bias=False)
        self.recurrent = linear(d_state, 3 * d_state, bias=False)
        self.input_norms = self._norms()
        self.recurrent_norms = self._norms()
        init_recurrent(self.input_proj, self.recurrent)

    def _norms(self) -> nn.ModuleList:
        """Build the norm of the two gates and that of the candidate."""
        return nn.ModuleList([nn.LayerNorm(2 * self.d_state), nn.LayerNorm(self.d_state)])

    def make_step_fn(self) -> StepFn:
        """See Cell."""
        to_gates, drop = recurrent_linear(self.recurrent), self.state_dropout.make_step_fn()

        def step(projected: Tensor, state: CellState) -> CellState:
            x = self._normalise(projected, self.input_norms)
            p = self._normalise(to_gates(drop(state.h)), self.recurrent_norms)
            return CellState(gru_gates(x, p, state.h))

        return step

    def _normalise(self, gates: Tensor, norms: nn.ModuleList) -> Tensor:
        """[rows, 3D] -> [rows, 3D]."""
        parts = torch.split(gates, [2 * self.d_state, self.d_state], 1)
        return torch.cat([norm(part) for norm, part in zip(norms, parts, strict=True)], 1)

    def zero_state(self, x: Tensor) -> CellState:
        """See Cell."""
        return CellState(x.new_zeros(x.size(0), self.d_state))
