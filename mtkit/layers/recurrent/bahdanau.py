"""Recurrent layer that attends before each step (Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mtkit.layers.projections import linear
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention
from mtkit.layers.recurrent.cells import Cell, CellState
from mtkit.layers.recurrent.deferred_weight_grad import recurrent_linear
from mtkit.layers.recurrent.stack import Connection, step_masks


class BahdanauOutput(NamedTuple):
    """Outputs and contexts of T positions, and the state after the last."""

    h: Tensor  # [B, T, D]
    contexts: Tensor  # [B, T, M]
    state: CellState


class BahdanauStep(NamedTuple):
    """Output, context and attention weights of one position, and the next state."""

    h: Tensor  # [rows, D]
    context: Tensor  # [rows, M]
    weights: Tensor  # [rows, S]
    state: CellState


class BahdanauLayer(nn.Module):
    """Recurrent layer whose input at each step includes the context of its last state.

    s_i = f(s_{i-1}, [E y_{i-1}; c_i]) with c_i = attend(s_{i-1}); appendix A.2.2.
    """

    def __init__(self, cell: Cell, attention: RecurrentAttention, connection: Connection, *, d_memory: int) -> None:
        super().__init__()
        self.cell = cell
        self.attention = attention
        self.connection = connection
        self.context = linear(d_memory, cell.input_proj.out_features, bias=False)  # input weights for the context

    def forward(self, x: Tensor, real: Tensor, memory: Annotations, state: CellState) -> BahdanauOutput:
        """Run over T positions: x [B, T, d_in], real [B, T]."""
        attend, cell_step = self.attention.make_attend_fn(memory), self.cell.make_step_fn()
        to_gates = recurrent_linear(self.context)
        outputs, contexts = [], []
        # the inputs' part of the gates does not depend on the state: one product for all positions, before the loop
        for gates_t, real_t in zip(self.cell.input_proj(x).unbind(1), step_masks(real, x.size(1)), strict=True):
            context, _ = attend(state.h)
            next_state = cell_step(to_gates(context, gates_t), state)
            state = next_state if real_t is None else next_state.where(real_t, state)
            outputs.append(state.h)
            contexts.append(context)
        return BahdanauOutput(self.connection(x, torch.stack(outputs, 1)), torch.stack(contexts, 1), state)

    def step(self, x: Tensor, memory: Annotations, state: CellState) -> BahdanauStep:
        """Run one step: x [rows, d_in]."""
        context, weights = self.attention.make_attend_fn(memory)(state.h)
        gates = recurrent_linear(self.context)(context, self.cell.input_proj(x))
        state = self.cell.make_step_fn()(gates, state)
        return BahdanauStep(self.connection(x, state.h), context, weights, state)
