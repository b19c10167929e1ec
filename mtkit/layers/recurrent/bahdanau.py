"""A recurrent layer that attends before it moves on (Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mtkit.layers.projections import linear
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention
from mtkit.layers.recurrent.cells import Cell, CellState
from mtkit.layers.recurrent.deferred_weight_grad import loop_product
from mtkit.layers.recurrent.stack import Joint, padded_steps


class Attended(NamedTuple):
    """What the layer gives at T places, and what it had attended to there; the state is that after the last."""

    h: Tensor  # [B, T, D]
    contexts: Tensor  # [B, T, M]
    state: CellState


class AttendedStep(NamedTuple):
    """The same of one place."""

    h: Tensor  # [rows, D]
    context: Tensor  # [rows, M]
    weights: Tensor  # [rows, S]
    state: CellState


class AttendingLayer(nn.Module):
    """A recurrent layer that at each step attends to the source from its last state and takes the context as input.

    s_i = f(s_{i-1}, [E y_{i-1}; c_i]) with c_i = attend(s_{i-1}); appendix A.2.2.
    """

    def __init__(self, cell: Cell, attention: RecurrentAttention, joint: Joint, *, d_memory: int) -> None:
        super().__init__()
        self.cell = cell
        self.attention = attention
        self.joint = joint
        self.context = linear(d_memory, cell.inputs.out_features, bias=False)  # the context's part of the cell's inputs

    def forward(self, x: Tensor, real: Tensor, memory: Annotations, state: CellState) -> Attended:
        """Run over T places: x [B, T, d_in], real [B, T]; only what depends on the last state is done in the loop."""
        attend, to_gates, transition = self.attention.unroll(memory), loop_product(self.context), self.cell.unroll()
        outputs, contexts = [], []
        for projected, real_here in zip(self.cell.inputs(x).unbind(1), padded_steps(real, x.size(1)), strict=True):
            context, _ = attend(state.h)
            following = transition(to_gates(context, projected), state)
            state = following if real_here is None else following.where(real_here, state)
            outputs.append(state.h)
            contexts.append(context)
        return Attended(self.joint(x, torch.stack(outputs, 1)), torch.stack(contexts, 1), state)

    def advance(self, x: Tensor, memory: Annotations, state: CellState) -> AttendedStep:
        """One step: x [rows, d_in]."""
        context, weights = self.attention.unroll(memory)(state.h)
        gates = loop_product(self.context)(context, self.cell.inputs(x))
        state = self.cell.unroll()(gates, state)
        return AttendedStep(self.joint(x, state.h), context, weights, state)
