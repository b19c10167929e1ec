"""Recurrent layers with attention before each step (Bahdanau) or after it, with input feeding (Luong)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mtkit.layers.cache import BatchedState
from mtkit.layers.projections import linear
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention
from mtkit.layers.recurrent.cells import Cell, CellState
from mtkit.layers.recurrent.deferred_weight_grad import concat_features, recurrent_linear
from mtkit.layers.recurrent.stack import Connection, RecurrentLayer, RecurrentStack, step_masks

if TYPE_CHECKING:
    from mtkit.layers.recurrent.config import MaxoutReadoutConfig, TanhReadoutConfig


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

    def forward(self, x: Tensor, real: Tensor, memory: Annotations, state: CellState) -> tuple[Tensor, Tensor]:
        """Run over T positions: x [B, T, d_in], real [B, T] -> outputs [B, T, D] and contexts [B, T, M]."""
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
        return self.connection(x, torch.stack(outputs, 1)), torch.stack(contexts, 1)

    def step(self, x: Tensor, memory: Annotations, state: CellState) -> tuple[Tensor, Tensor, Tensor, CellState]:
        """Run one step: x [rows, d_in] -> output [rows, D], context [rows, M], weights [rows, S], next state."""
        context, weights = self.attention.make_attend_fn(memory)(state.h)
        gates = recurrent_linear(self.context)(context, self.cell.input_proj(x))
        state = self.cell.make_step_fn()(gates, state)
        return self.connection(x, state.h), context, weights, state


@dataclass(frozen=True)
class InputFeedingState(BatchedState):
    """The state of each layer, from the lowest, and the attentional vector h~ of the last step."""

    layers: tuple[CellState, ...]
    attentional: Tensor  # [rows, D]

    def where(self, real: Tensor, otherwise: InputFeedingState) -> InputFeedingState:
        """Return this state in the rows where real [rows, 1] is True, and `otherwise` in the others."""
        layers = tuple(new.where(real, old) for new, old in zip(self.layers, otherwise.layers, strict=True))
        return InputFeedingState(layers, torch.where(real, self.attentional, otherwise.attentional))


# input x [rows, d_in], state -> next state, attention weights [rows, S]
InputFeedingStepFn = Callable[[Tensor, InputFeedingState], tuple[InputFeedingState, Tensor]]


class InputFeedingStack(nn.Module):
    """h_t = layers([E y_{t-1}; h~_{t-1}]), c_t = attend(h_t), h~_t = readout([h_t; c_t]), with h~_0 = 0.

    h~ has no dropout at the input.
    """

    def __init__(
        self, stack: RecurrentStack, attention: RecurrentAttention, readout: Readout, d_attentional: int
    ) -> None:
        super().__init__()
        lowest: RecurrentLayer = stack.layers[0]  # type: ignore[assignment]
        d_gates = lowest.cell.input_proj.out_features
        self.stack = stack
        self.attention = attention
        self.readout = readout
        self.feed_proj = linear(d_attentional, d_gates, bias=False)  # input weights of the lowest layer for h~

    def make_step_fn(self, memory: Annotations) -> InputFeedingStepFn:
        """Return the transition for the steps of one loop."""
        stack_step, attend = self.stack.make_step_fn(), self.attention.make_attend_fn(memory)
        to_gates, readout = recurrent_linear(self.feed_proj), self.readout.make_step_fn()

        def step(x: Tensor, state: InputFeedingState) -> tuple[InputFeedingState, Tensor]:
            h, layers = stack_step(x, state.layers, to_gates(state.attentional))
            context, weights = attend(h)
            attentional = readout(concat_features(h, context)).to(state.attentional.dtype)
            return InputFeedingState(layers, attentional), weights

        return step

    def forward(self, x: Tensor, real: Tensor, memory: Annotations, state: InputFeedingState) -> Tensor:
        """Run over T positions: x [B, T, d_in], real [B, T] -> attentional vectors [B, T, D]."""
        step = self.make_step_fn(memory)
        outputs = []
        for x_t, real_t in zip(x.unbind(1), step_masks(real, x.size(1)), strict=True):
            next_state, _ = step(x_t, state)
            state = next_state if real_t is None else next_state.where(real_t, state)
            outputs.append(state.attentional)
        return torch.stack(outputs, 1)


class Readout(nn.Module, ABC):
    """A linear map followed by an activation."""

    linear: nn.Linear

    @abstractmethod
    def activate(self, y: Tensor) -> Tensor:
        """Apply the activation to the linear map's output."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., d_in] -> [..., d_out]."""
        return self.activate(self.linear(x))

    def make_step_fn(self) -> Callable[[Tensor], Tensor]:
        """Return the readout [rows, d_in] -> [rows, d_out] for the steps of one loop."""
        product = recurrent_linear(self.linear)
        return lambda x: self.activate(product(x))


class MaxoutReadout(Readout):
    """Elementwise maximum of `num_pieces` linear maps.

    Goodfellow et al. 2013; Bahdanau et al. 2015, appendix A.2.2, with 2 pieces. https://arxiv.org/abs/1409.0473
    """

    def __init__(self, config: MaxoutReadoutConfig, d_in: int, d_out: int) -> None:
        super().__init__()
        self.num_pieces = config.num_pieces
        self.linear = linear(d_in, config.num_pieces * d_out)

    def activate(self, y: Tensor) -> Tensor:
        """[..., num_pieces·d_out] -> [..., d_out]."""
        pieces: tuple[Tensor, ...] = y.chunk(self.num_pieces, -1)
        return reduce(torch.maximum, pieces)


class TanhReadout(Readout):
    """tanh of a linear map. Luong et al. 2015, eq. 5. https://arxiv.org/abs/1508.04025"""

    def __init__(self, config: TanhReadoutConfig, d_in: int, d_out: int) -> None:
        super().__init__()
        self.linear = linear(d_in, d_out)

    def activate(self, y: Tensor) -> Tensor:
        """tanh(y)."""
        return y.tanh()
