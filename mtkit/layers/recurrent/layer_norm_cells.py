"""Recurrent cells with layer norms inside, so that states neither grow nor fade along a sequence.

Ba, Kiros & Hinton 2016. https://arxiv.org/abs/1607.06450 Inputs have no bias of their own: that of the norms does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from mtkit.layers.projections import linear
from mtkit.layers.recurrent.cells import Cell, CellState, Transition, begin_recurrent
from mtkit.layers.recurrent.deferred_weight_grad import loop_product
from mtkit.layers.recurrent.fused_gates import gru_gates


class NormedLSTMCell(Cell):
    """gates = LN(U h) + LN(W x); c' = f c + i g and h' = o tanh(LN(c')). From the supplementary material.

    Gates in the order input, forget, output, candidate, normalised together; the forget gate's bias begins at 1.
    """

    has_content = True

    def __init__(self, d_in: int, d_state: int, state_dropout: float = 0.0) -> None:
        super().__init__(d_state, state_dropout)
        self.inputs = linear(d_in, 4 * d_state, bias=False)
        self.recurrent = linear(d_state, 4 * d_state, bias=False)
        self.input_norm = nn.LayerNorm(4 * d_state)
        self.recurrent_norm = nn.LayerNorm(4 * d_state)
        self.content_norm = nn.LayerNorm(d_state)
        begin_recurrent(self.inputs, self.recurrent)
        nn.init.ones_(self.input_norm.bias[d_state : 2 * d_state])

    def unroll(self) -> Transition:
        """See Cell."""
        product, drop = loop_product(self.recurrent), self.state_dropout.unroll()
        width = self.d_state

        def transition(projected: Tensor, state: CellState) -> CellState:
            if state.c is None:
                raise ValueError("the state of another cell: an LSTM carries c")
            gates = (self.recurrent_norm(product(drop(state.h))) + self.input_norm(projected)).to(state.c.dtype)
            i, f, o = gates[:, : 3 * width].sigmoid().chunk(3, 1)  # [rows, D] each
            c = f * state.c + i * gates[:, 3 * width :].tanh()
            return CellState(o * self.content_norm(c).to(c.dtype).tanh(), c)

        return transition

    def zeros(self, x: Tensor) -> CellState:
        """See Cell."""
        zero = x.new_zeros(x.size(0), self.d_state)
        return CellState(zero, zero)


class NormedGRUCell(Cell):
    """r and z from LN(U h) + LN(W x); n = tanh(LN(W' x) + r LN(U' h)); h' = (1 - z) n + z h.

    From the supplementary material; its z is one less ours. The reset gate stands after the product and its norm.
    """

    def __init__(self, d_in: int, d_state: int, state_dropout: float = 0.0) -> None:
        super().__init__(d_state, state_dropout)
        self.inputs = linear(d_in, 3 * d_state, bias=False)
        self.recurrent = linear(d_state, 3 * d_state, bias=False)
        self.input_norms = self._norms()
        self.recurrent_norms = self._norms()
        begin_recurrent(self.inputs, self.recurrent)

    def _norms(self) -> nn.ModuleList:
        """Of the gates, and of the candidate."""
        return nn.ModuleList([nn.LayerNorm(2 * self.d_state), nn.LayerNorm(self.d_state)])

    def unroll(self) -> Transition:
        """See Cell."""
        product, drop = loop_product(self.recurrent), self.state_dropout.unroll()

        def transition(projected: Tensor, state: CellState) -> CellState:
            x = self._normed(projected, self.input_norms)
            p = self._normed(product(drop(state.h)), self.recurrent_norms)
            return CellState(gru_gates(x, p, state.h))

        return transition

    def _normed(self, parts: Tensor, norms: nn.ModuleList) -> Tensor:
        """[rows, 3D] -> [rows, 3D]."""
        sizes = [2 * self.d_state, self.d_state]
        return torch.cat([norm(part) for norm, part in zip(norms, torch.split(parts, sizes, 1), strict=True)], 1)

    def zeros(self, x: Tensor) -> CellState:
        """See Cell."""
        return CellState(x.new_zeros(x.size(0), self.d_state))


@dataclass(frozen=True, kw_only=True)
class NormedLSTMCellConfig:
    """Long short-term memory with layer norms inside (see NormedLSTMCell)."""

    kind: Literal["normed_lstm"] = "normed_lstm"

    def build(self, d_in: int, d_state: int, state_dropout: float) -> Cell:
        """The cell for inputs [rows, d_in] and states [rows, d_state]."""
        return NormedLSTMCell(d_in, d_state, state_dropout)


@dataclass(frozen=True, kw_only=True)
class NormedGRUCellConfig:
    """Gated recurrent unit with layer norms inside (see NormedGRUCell)."""

    kind: Literal["normed_gru"] = "normed_gru"

    def build(self, d_in: int, d_state: int, state_dropout: float) -> Cell:
        """The cell for inputs [rows, d_in] and states [rows, d_state]."""
        return NormedGRUCell(d_in, d_state, state_dropout)
