"""Recurrent layers over sequences: one direction, both directions, stacks, and the connections between layers.

A padded position leaves the state unchanged, wherever it is. The states of a sentence do not depend on its padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from mtkit.layers.dropout import PerStepDropout
from mtkit.layers.layer_call import LayerStack
from mtkit.layers.recurrent.cells import Cell, CellState
from mtkit.layers.recurrent.deferred_weight_grad import recurrent_linear


def step_masks(real: Tensor | None, length: int) -> list[Tensor | None]:
    """Split real [B, T] into one mask [B, 1] per step; None for a step without padding, or if `real` is None."""
    if real is None:
        return [None] * length
    full = real.all(0).tolist()
    return [None if is_full else step for is_full, step in zip(full, real.unsqueeze(2).unbind(1), strict=True)]


class RecurrentLayer(nn.Module):
    """One cell over a sequence, from its first position to its last, or in reverse."""

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
            real: [B, T], or None without padding.
            state: initial state; zeros if None.

        Returns:
            h of every position [B, T, D], and the final state (if `reverse`, the one after the first position).
        """
        state = self.cell.zero_state(x) if state is None else state
        inputs = list(zip(self.cell.input_proj(x).unbind(1), step_masks(real, x.size(1)), strict=True))
        step = self.cell.make_step_fn()
        outputs = []
        for projected, real_t in reversed(inputs) if self.reverse else inputs:
            next_state = step(projected, state)
            state = next_state if real_t is None else next_state.where(real_t, state)
            outputs.append(state.h)
        if not outputs:
            return x.new_zeros(x.size(0), 0, self.cell.d_state), state
        return torch.stack(outputs[::-1] if self.reverse else outputs, 1), state

    def step(self, x: Tensor, state: CellState) -> CellState:
        """Run one step: x [rows, d_in]."""
        return self.cell.make_step_fn()(self.cell.input_proj(x), state)


class BidirectionalLayer(nn.Module):
    """Two recurrent layers, one in each direction, with concatenated outputs. Schuster & Paliwal 1997."""

    def __init__(self, forward_cell: Cell, backward_cell: Cell) -> None:
        super().__init__()
        self.forward_layer = RecurrentLayer(forward_cell)
        self.backward_layer = RecurrentLayer(backward_cell, reverse=True)

    def forward(self, x: Tensor, real: Tensor | None = None) -> tuple[Tensor, tuple[CellState, CellState]]:
        """x [B, T, d_in] -> [B, T, 2D], and the final state of each direction."""
        forwards, last = self.forward_layer(x, real)
        backwards, first = self.backward_layer(x, real)
        return torch.cat([forwards, backwards], 2), (last, first)


class Connection(nn.Module):
    """Input of the next layer: norm(y)."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Combine a layer's input x (before dropout) and output y, [..., D] -> [..., D]."""
        return self.norm(y)  # type: ignore[no-any-return]


class ResidualConnection(Connection):
    """Input of the next layer: norm(x + y). Wu et al. 2016, sec. 3.1, arXiv:1609.08144."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """See Connection."""
        return self.norm(x + y)  # type: ignore[no-any-return]


# Transition of a stack in a loop: x [rows, d_in], states, and an addition to the lowest layer's gates [rows, gates·D]
# or None -> [rows, D] and the next states.
StackStepFn = Callable[[Tensor, tuple[CellState, ...], Tensor | None], tuple[Tensor, tuple[CellState, ...]]]


class RecurrentStack(LayerStack):
    """Unidirectional layers on top of each other, with dropout and connections between them."""

    def __init__(
        self, layers: Sequence[RecurrentLayer], connections: Sequence[Connection], dropout: PerStepDropout
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.connections = nn.ModuleList(connections)
        self.dropout = dropout

    def __len__(self) -> int:
        return len(self.layers)

    def forward(
        self, x: Tensor, real: Tensor | None = None, states: tuple[CellState, ...] | None = None
    ) -> tuple[Tensor, tuple[CellState, ...]]:
        """x [B, T, d_in] -> [B, T, D] and the final state of each layer; `states` are initial ones, zeros if None."""
        finals = []
        for i, (layer, connection) in enumerate(zip(self.layers, self.connections, strict=True)):
            initial = None if states is None else states[i]
            y, final = self.call_layer(layer, self.dropout(x) if i else x, real, initial)
            x = connection(x, y)
            finals.append(final)
        return x, tuple(finals)

    def make_step_fn(self) -> StackStepFn:
        """Return the transition for the steps of one loop."""
        drop = self.dropout.make_step_fn()
        cells = [cast(RecurrentLayer, layer).cell for layer in self.layers]
        layers = [
            (recurrent_linear(cell.input_proj), cell.make_step_fn(), connection)
            for cell, connection in zip(cells, self.connections, strict=True)
        ]

        def stack_step(
            x: Tensor, states: tuple[CellState, ...], add: Tensor | None
        ) -> tuple[Tensor, tuple[CellState, ...]]:
            next_states = []
            for i, ((input_proj, step, connection), state) in enumerate(zip(layers, states, strict=True)):
                next_states.append(step(input_proj(drop(x)) if i else input_proj(x, add), state))
                x = connection(x, next_states[-1].h)
            return x, tuple(next_states)

        return stack_step

    def step(self, x: Tensor, states: tuple[CellState, ...]) -> tuple[Tensor, tuple[CellState, ...]]:
        """Run one step: x [rows, d_in] -> [rows, D] and the next states."""
        return self.make_step_fn()(x, states, None)


class RecurrentEncoder(LayerStack):
    """Layers in one or both directions on top of each other, with dropout and connections between them."""

    def __init__(
        self,
        layers: Sequence[BidirectionalLayer | RecurrentLayer],
        connections: Sequence[Connection],
        dropout: nn.Module,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.connections = nn.ModuleList(connections)
        self.dropout = dropout

    def forward(self, x: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, S, d_in] -> annotations [B, S, M], and the top layer's final states, concatenated [B, M]."""
        finals: CellState | tuple[CellState, ...] = ()
        for i, (layer, connection) in enumerate(zip(self.layers, self.connections, strict=True)):
            y, finals = self.call_layer(layer, self.dropout(x) if i else x, real)
            x = connection(x, y)
        return x, torch.cat([final.h for final in ((finals,) if isinstance(finals, CellState) else finals)], 1)
