"""Recurrent cells: the transition from one state to the next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from mtkit.layers.cache.state import Rows
from mtkit.layers.projections import linear
from mtkit.layers.recurrent.deferred_weight_grad import loop_product
from mtkit.layers.recurrent.dropout import VariationalDropout
from mtkit.layers.recurrent.fused_gates import gru_gates, lstm_gates


@dataclass(frozen=True)
class CellState(Rows):
    """What a cell carries: its output h [rows, D] and, in an LSTM, the cell's content c [rows, D]."""

    h: Tensor
    c: Tensor | None = None

    def where(self, real: Tensor, otherwise: CellState) -> CellState:
        """This state in the rows where real [rows, 1] is true, `otherwise` in the others."""
        if self.c is None or otherwise.c is None:
            return CellState(torch.where(real, self.h, otherwise.h))
        return CellState(torch.where(real, self.h, otherwise.h), torch.where(real, self.c, otherwise.c))


Transition = Callable[[Tensor, CellState], CellState]  # (projected input [rows, gates·D], state) -> next state


class Cell(nn.Module, ABC):
    """The transition of a recurrent layer. `inputs` maps inputs to gates and serves a whole sequence in one product."""

    inputs: nn.Linear  # [gates·D, d_in]
    has_content = False  # whether states have a c

    def __init__(self, d_state: int, state_dropout: float = 0.0) -> None:
        super().__init__()
        self.d_state = d_state
        self.state_dropout = VariationalDropout(state_dropout)  # of h where weights multiply it

    @abstractmethod
    def unroll(self) -> Transition:
        """The transition for the steps of one loop; weights are prepared once and their gradient is computed once."""

    @abstractmethod
    def zeros(self, x: Tensor) -> CellState:
        """The state before the first of x [rows, ...], in its type."""


class LSTMCell(Cell):
    """Long short-term memory; gates in the order input, forget, output, candidate.

    Hochreiter & Schmidhuber 1997 with forget gates (Gers et al. 2000). Recurrent weights begin orthogonal, the forget
    gate's bias at 1 (Jozefowicz et al. 2015, sec. 2.2), the others as layers/linear.py has them.
    """

    has_content = True

    def __init__(self, d_in: int, d_state: int, state_dropout: float = 0.0) -> None:
        super().__init__(d_state, state_dropout)
        self.inputs = linear(d_in, 4 * d_state)
        self.recurrent = linear(d_state, 4 * d_state, bias=False)
        begin_recurrent(self.inputs, self.recurrent)
        nn.init.ones_(self.inputs.bias[d_state : 2 * d_state])

    def unroll(self) -> Transition:
        """See Cell."""
        product, drop = loop_product(self.recurrent), self.state_dropout.unroll()

        def transition(projected: Tensor, state: CellState) -> CellState:
            if state.c is None:
                raise ValueError("the state of another cell: an LSTM carries c")
            return CellState(*lstm_gates(product(drop(state.h), projected), state.c))

        return transition

    def zeros(self, x: Tensor) -> CellState:
        """See Cell."""
        zero = x.new_zeros(x.size(0), self.d_state)
        return CellState(zero, zero)


class GRUCell(Cell):
    """Gated recurrent unit with the reset gate applied after the recurrent product, as in torch: one product a step.

    Cho et al. 2014 with the arrangement of cuDNN. Gates in the order reset, update, candidate; recurrent weights begin
    orthogonal. h' = (1 - z) n + z h, as in torch; the paper names 1 - z what is z here.
    """

    def __init__(self, d_in: int, d_state: int, state_dropout: float = 0.0) -> None:
        super().__init__(d_state, state_dropout)
        self.inputs = linear(d_in, 3 * d_state)
        self.recurrent = linear(d_state, 3 * d_state)
        begin_recurrent(self.inputs, self.recurrent)

    def unroll(self) -> Transition:
        """See Cell."""
        product, drop = loop_product(self.recurrent), self.state_dropout.unroll()

        def transition(projected: Tensor, state: CellState) -> CellState:
            return CellState(gru_gates(projected, product(drop(state.h)), state.h))

        return transition

    def zeros(self, x: Tensor) -> CellState:
        """See Cell."""
        return CellState(x.new_zeros(x.size(0), self.d_state))


class ResetBeforeGRUCell(Cell):
    """Gated recurrent unit as Bahdanau et al. 2015 write it: the reset gate is applied before the recurrent product.

    Appendix A.1.1: n = tanh(W x + U (r h)); two products a step. https://arxiv.org/abs/1409.0473
    h' = (1 - z) n + z h; the paper names 1 - z what is z here.
    """

    def __init__(self, d_in: int, d_state: int, state_dropout: float = 0.0) -> None:
        super().__init__(d_state, state_dropout)
        self.inputs = linear(d_in, 3 * d_state)
        self.recurrent_gates = linear(d_state, 2 * d_state, bias=False)
        self.recurrent_candidate = linear(d_state, d_state, bias=False)
        begin_recurrent(self.inputs, self.recurrent_gates)
        nn.init.orthogonal_(self.recurrent_candidate.weight)

    def unroll(self) -> Transition:
        """See Cell."""
        to_gates, to_candidate = loop_product(self.recurrent_gates), loop_product(self.recurrent_candidate)
        width, drop = self.d_state, self.state_dropout.unroll()

        def transition(projected: Tensor, state: CellState) -> CellState:
            h = drop(state.h)
            x_gates, x_candidate = projected[:, : 2 * width], projected[:, 2 * width :]
            r, z = to_gates(h, x_gates).to(state.h.dtype).sigmoid().chunk(2, 1)  # [rows, D] each
            n = to_candidate(r * h, x_candidate).to(state.h.dtype).tanh()
            return CellState(torch.lerp(n, state.h, z))

        return transition

    def zeros(self, x: Tensor) -> CellState:
        """See Cell."""
        return CellState(x.new_zeros(x.size(0), self.d_state))


@torch.no_grad()
def begin_recurrent(inputs: nn.Linear, recurrent: nn.Linear) -> None:
    """Start each gate apart: inputs Xavier-uniform over their own fan-out, recurrent weights orthogonal (Saxe 2014)."""
    width = recurrent.in_features
    for layer, init in ((inputs, nn.init.xavier_uniform_), (recurrent, nn.init.orthogonal_)):
        for begin in range(0, layer.out_features, width):
            init(layer.weight[begin : begin + width])


@dataclass(frozen=True, kw_only=True)
class LSTMCellConfig:
    """Long short-term memory (see LSTMCell)."""

    kind: Literal["lstm"] = "lstm"

    def build(self, d_in: int, d_state: int, state_dropout: float) -> Cell:
        """The cell for inputs [rows, d_in] and states [rows, d_state]."""
        return LSTMCell(d_in, d_state, state_dropout)


@dataclass(frozen=True, kw_only=True)
class GRUCellConfig:
    """Gated recurrent unit (see GRUCell and ResetBeforeGRUCell)."""

    kind: Literal["gru"] = "gru"
    reset_gate: Literal["after", "before"] = "after"  # the recurrent product: torch's form, faster, or the paper's

    def build(self, d_in: int, d_state: int, state_dropout: float) -> Cell:
        """The cell for inputs [rows, d_in] and states [rows, d_state]."""
        return (GRUCell if self.reset_gate == "after" else ResetBeforeGRUCell)(d_in, d_state, state_dropout)
