"""Recurrent layers that attend after they have moved on, and at the next step are told what came of it.

Luong, Pham & Manning 2015, sec. 3.3, "input feeding". https://arxiv.org/abs/1508.04025
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mtkit.layers.cache.state import Rows
from mtkit.layers.projections import linear
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention
from mtkit.layers.recurrent.cells import CellState
from mtkit.layers.recurrent.deferred_weight_grad import joined, loop_product
from mtkit.layers.recurrent.readout import Readout
from mtkit.layers.recurrent.stack import RecurrentStack, padded_steps


@dataclass(frozen=True)
class FedState(Rows):
    """The state of each layer, from the lowest, and the attentional vector of the last step [rows, D]."""

    layers: tuple[CellState, ...]
    fed: Tensor

    def where(self, real: Tensor, otherwise: FedState) -> FedState:
        """This state in the rows where real [rows, 1] is true, `otherwise` in the others."""
        layers = tuple(new.where(real, old) for new, old in zip(self.layers, otherwise.layers, strict=True))
        return FedState(layers, torch.where(real, self.fed, otherwise.fed))


FedTransition = Callable[[Tensor, FedState], tuple[FedState, Tensor]]  # x [rows, d_in] -> weights [rows, S]


class FeedingLayers(nn.Module):
    """h_t = layers([E y_{t-1}; h~_{t-1}]), c_t = attend(h_t), h~_t = readout([h_t; c_t]); nothing is fed to the first.

    What is fed has no dropout of its own.
    """

    def __init__(
        self, stack: RecurrentStack, attention: RecurrentAttention, readout: Readout, *, d_fed: int, d_gates: int
    ) -> None:
        super().__init__()
        self.stack = stack
        self.attention = attention
        self.readout = readout
        self.feed = linear(d_fed, d_gates, bias=False)  # the part of h~ in the lowest layer's inputs

    def unroll(self, memory: Annotations) -> FedTransition:
        """The transition for the steps of one loop; `fed` of the next state is the attentional vector."""
        move, attend = self.stack.unroll(), self.attention.unroll(memory)
        to_gates, read = loop_product(self.feed), self.readout.unroll()

        def transition(x: Tensor, state: FedState) -> tuple[FedState, Tensor]:
            h, layers = move(x, state.layers, to_gates(state.fed))
            context, weights = attend(h)
            return FedState(layers, read(joined(h, context)).to(state.fed.dtype)), weights

        return transition

    def forward(self, x: Tensor, real: Tensor, memory: Annotations, state: FedState) -> Tensor:
        """Run over T places: x [B, T, d_in], real [B, T] -> attentional vectors [B, T, D]."""
        transition = self.unroll(memory)
        outputs = []
        for x_here, real_here in zip(x.unbind(1), padded_steps(real, x.size(1)), strict=True):
            following, _ = transition(x_here, state)
            state = following if real_here is None else following.where(real_here, state)
            outputs.append(state.fed)
        return torch.stack(outputs, 1)
