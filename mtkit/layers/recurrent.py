"""Recurrent layers over sequences, whole or one step at a time, with cells as parts.

A padded place, wherever it stands, leaves the state as it was; so a sentence's states do not depend on its padding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.layers.linear import linear
from mtkit.layers.passage import Passing
from mtkit.layers.recurrent_gates import gru_gates, lstm_gates
from mtkit.layers.recurrent_gradient import loop_product
from mtkit.layers.rows import Rows


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

    def __init__(self, d_state: int) -> None:
        super().__init__()
        self.d_state = d_state

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

    def __init__(self, d_in: int, d_state: int) -> None:
        super().__init__(d_state)
        self.inputs = linear(d_in, 4 * d_state)
        self.recurrent = linear(d_state, 4 * d_state, bias=False)
        begin_recurrent(self.inputs, self.recurrent)
        nn.init.ones_(self.inputs.bias[d_state : 2 * d_state])

    def unroll(self) -> Transition:
        """See Cell."""
        product = loop_product(self.recurrent)

        def transition(projected: Tensor, state: CellState) -> CellState:
            if state.c is None:
                raise ValueError("the state of another cell: an LSTM carries c")
            return CellState(*lstm_gates(product(state.h, projected), state.c))

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

    def __init__(self, d_in: int, d_state: int) -> None:
        super().__init__(d_state)
        self.inputs = linear(d_in, 3 * d_state)
        self.recurrent = linear(d_state, 3 * d_state)
        begin_recurrent(self.inputs, self.recurrent)

    def unroll(self) -> Transition:
        """See Cell."""
        product = loop_product(self.recurrent)

        def transition(projected: Tensor, state: CellState) -> CellState:
            return CellState(gru_gates(projected, product(state.h), state.h))

        return transition

    def zeros(self, x: Tensor) -> CellState:
        """See Cell."""
        return CellState(x.new_zeros(x.size(0), self.d_state))


class ResetBeforeGRUCell(Cell):
    """Gated recurrent unit as Bahdanau et al. 2015 write it: the reset gate is applied before the recurrent product.

    Appendix A.1.1: n = tanh(W x + U (r h)); two products a step. https://arxiv.org/abs/1409.0473
    h' = (1 - z) n + z h; the paper names 1 - z what is z here.
    """

    def __init__(self, d_in: int, d_state: int) -> None:
        super().__init__(d_state)
        self.inputs = linear(d_in, 3 * d_state)
        self.recurrent_gates = linear(d_state, 2 * d_state, bias=False)
        self.recurrent_candidate = linear(d_state, d_state, bias=False)
        begin_recurrent(self.inputs, self.recurrent_gates)
        nn.init.orthogonal_(self.recurrent_candidate.weight)

    def unroll(self) -> Transition:
        """See Cell."""
        to_gates, to_candidate = loop_product(self.recurrent_gates), loop_product(self.recurrent_candidate)
        width = self.d_state

        def transition(projected: Tensor, state: CellState) -> CellState:
            x_gates, x_candidate = projected[:, : 2 * width], projected[:, 2 * width :]
            r, z = to_gates(state.h, x_gates).to(state.h.dtype).sigmoid().chunk(2, 1)  # [rows, D] each
            n = to_candidate(r * state.h, x_candidate).to(state.h.dtype).tanh()
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

    def build(self, d_in: int, d_state: int) -> Cell:
        """The cell for inputs [rows, d_in] and states [rows, d_state]."""
        return LSTMCell(d_in, d_state)


@dataclass(frozen=True, kw_only=True)
class GRUCellConfig:
    """Gated recurrent unit (see GRUCell and ResetBeforeGRUCell)."""

    kind: Literal["gru"] = "gru"
    reset_gate: Literal["after", "before"] = "after"  # the recurrent product: torch's form, faster, or the paper's

    def build(self, d_in: int, d_state: int) -> Cell:
        """The cell for inputs [rows, d_in] and states [rows, d_state]."""
        return (GRUCell if self.reset_gate == "after" else ResetBeforeGRUCell)(d_in, d_state)


CellConfig = Annotated[LSTMCellConfig | GRUCellConfig, Field(discriminator="kind")]


def padded_steps(real: Tensor | None, length: int) -> list[Tensor | None]:
    """For each of the places of real [B, T], None if all sentences have a token there, else real [B, 1]."""
    if real is None:
        return [None] * length
    full = real.all(0).tolist()
    return [None if is_full else step for is_full, step in zip(full, real.unsqueeze(2).unbind(1), strict=True)]


class RecurrentLayer(nn.Module):
    """One cell along a sequence, from its first place to its last or the other way round."""

    def __init__(self, cell: Cell, *, reverse: bool = False) -> None:
        super().__init__()
        self.cell = cell
        self.reverse = reverse

    def forward(
        self, x: Tensor, real: Tensor | None = None, state: CellState | None = None
    ) -> tuple[Tensor, CellState]:
        """Run over a whole sequence.

        Args:
            x: [B, T, d_in].
            real: [B, T], or None if all places are real.
            state: where to begin; zeros if None.

        Returns:
            h of every place [B, T, D], and the state at the end (for `reverse`, after the first place).
        """
        state = self.cell.zeros(x) if state is None else state
        steps = list(zip(self.cell.inputs(x).unbind(1), padded_steps(real, x.size(1)), strict=True))
        transition = self.cell.unroll()
        states = []
        for projected, real_here in reversed(steps) if self.reverse else steps:
            following = transition(projected, state)
            state = following if real_here is None else following.where(real_here, state)
            states.append(state.h)
        if not states:
            return x.new_zeros(x.size(0), 0, self.cell.d_state), state
        return torch.stack(states[::-1] if self.reverse else states, 1), state

    def advance(self, x: Tensor, state: CellState) -> CellState:
        """One step: x [rows, d_in]."""
        return self.cell.unroll()(self.cell.inputs(x), state)


class BidirectionalLayer(nn.Module):
    """Two cells, one from each end, their outputs side by side. Schuster & Paliwal 1997."""

    def __init__(self, forward_cell: Cell, backward_cell: Cell) -> None:
        super().__init__()
        self.ahead = RecurrentLayer(forward_cell)
        self.back = RecurrentLayer(backward_cell, reverse=True)

    def forward(self, x: Tensor, real: Tensor | None = None) -> tuple[Tensor, tuple[CellState, CellState]]:
        """x [B, T, d_in] -> [B, T, 2D], and the state at the end of each direction."""
        ahead, last = self.ahead(x, real)
        back, first = self.back(x, real)
        return torch.cat([ahead, back], 2), (last, first)


class RecurrentStack(Passing):
    """Layers on top of each other, dropout between them (not inside the recurrence: Zaremba et al. 2014)."""

    def __init__(self, layers: Sequence[RecurrentLayer], dropout: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.dropout = dropout

    def __len__(self) -> int:
        return len(self.layers)

    def forward(
        self, x: Tensor, real: Tensor | None = None, states: tuple[CellState, ...] | None = None
    ) -> tuple[Tensor, tuple[CellState, ...]]:
        """x [B, T, d_in] -> [B, T, D] and the state at the end of each layer; begins at `states`, or at zeros."""
        ends = []
        for i, layer in enumerate(self.layers):
            begin = None if states is None else states[i]
            x, end = self.passage(layer, self.dropout(x) if i else x, real, begin)
            ends.append(end)
        return x, tuple(ends)

    def advance(self, x: Tensor, states: tuple[CellState, ...]) -> tuple[Tensor, tuple[CellState, ...]]:
        """One step: x [rows, d_in] -> [rows, D] and the next states."""
        ends = []
        for i, (layer, state) in enumerate(zip(self.layers, states, strict=True)):
            ends.append(cast(RecurrentLayer, layer).advance(self.dropout(x) if i else x, state))
            x = ends[-1].h
        return x, tuple(ends)
