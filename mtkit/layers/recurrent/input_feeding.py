"""Input feeding: recurrent layers that attend after each step; the result is an input of the next step.

Luong, Pham & Manning 2015, sec. 3.3. https://arxiv.org/abs/1508.04025
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mtkit.layers.cache.state import BatchedState
from mtkit.layers.projections import linear
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention
from mtkit.layers.recurrent.cells import CellState
from mtkit.layers.recurrent.deferred_weight_grad import concat_features, recurrent_linear
from mtkit.layers.recurrent.readout import Readout
from mtkit.layers.recurrent.stack import RecurrentStack, step_masks


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
        self,
        stack: RecurrentStack,
        attention: RecurrentAttention,
        readout: Readout,
        *,
        d_attentional: int,
        d_gates: int,
    ) -> None:
        super().__init__()
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
