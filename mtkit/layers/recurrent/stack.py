"""Recurrent layers over sequences, whole or one step at a time, with cells as parts.

A padded place, wherever it stands, leaves the state as it was; so a sentence's states do not depend on its padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.layers.layer_call import Passing
from mtkit.layers.norms.layer_norm import NormLayerConfig
from mtkit.layers.recurrent.cells import Cell, CellState
from mtkit.layers.recurrent.deferred_weight_grad import loop_product
from mtkit.layers.recurrent.dropout import FreshDropout


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


class StackTransition(Protocol):
    """What a stack is inside a loop."""

    def __call__(
        self, x: Tensor, states: tuple[CellState, ...], add: Tensor | None = None
    ) -> tuple[Tensor, tuple[CellState, ...]]:
        """x [rows, d_in] -> [rows, D] and the next states; `add` [rows, gates·D] goes to the first layer's gates."""
        ...


class RecurrentStack(Passing):
    """Layers on top of each other, dropout and a joint between them."""

    def __init__(self, layers: Sequence[RecurrentLayer], joints: Sequence[Joint], dropout: FreshDropout) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.joints = nn.ModuleList(joints)
        self.dropout = dropout

    def __len__(self) -> int:
        return len(self.layers)

    def forward(
        self, x: Tensor, real: Tensor | None = None, states: tuple[CellState, ...] | None = None
    ) -> tuple[Tensor, tuple[CellState, ...]]:
        """x [B, T, d_in] -> [B, T, D] and the state at the end of each layer; begins at `states`, or at zeros."""
        ends = []
        for i, (layer, joint) in enumerate(zip(self.layers, self.joints, strict=True)):
            begin = None if states is None else states[i]
            y, end = self.passage(layer, self.dropout(x) if i else x, real, begin)
            x = joint(x, y)
            ends.append(end)
        return x, tuple(ends)

    def unroll(self) -> StackTransition:
        """The transition for the steps of one loop."""
        drop = self.dropout.unroll()
        cells = [cast(RecurrentLayer, layer).cell for layer in self.layers]
        parts = [
            (loop_product(cell.inputs), cell.unroll(), joint) for cell, joint in zip(cells, self.joints, strict=True)
        ]

        def transition(
            x: Tensor, states: tuple[CellState, ...], add: Tensor | None = None
        ) -> tuple[Tensor, tuple[CellState, ...]]:
            ends = []
            for i, ((inputs, step, joint), state) in enumerate(zip(parts, states, strict=True)):
                ends.append(step(inputs(drop(x)) if i else inputs(x, add), state))
                x = joint(x, ends[-1].h)
            return x, tuple(ends)

        return transition

    def advance(self, x: Tensor, states: tuple[CellState, ...]) -> tuple[Tensor, tuple[CellState, ...]]:
        """One step: x [rows, d_in] -> [rows, D] and the next states."""
        return self.unroll()(x, states)


class RecurrentEncoder(Passing):
    """Layers on top of each other, dropout and a joint between them."""

    def __init__(
        self, layers: Sequence[BidirectionalLayer | RecurrentLayer], joints: Sequence[Joint], dropout: nn.Module
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.joints = nn.ModuleList(joints)
        self.dropout = dropout

    def forward(self, x: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, S, d_in] -> annotations [B, S, M], and the top layer's states at its ends, side by side [B, M]."""
        ends: CellState | tuple[CellState, ...] = ()
        for i, (layer, joint) in enumerate(zip(self.layers, self.joints, strict=True)):
            y, ends = self.passage(layer, self.dropout(x) if i else x, real)
            x = joint(x, y)
        return x, torch.cat([end.h for end in ((ends,) if isinstance(ends, CellState) else ends)], 1)


class Joint(nn.Module):
    """What a layer gives the one above it: norm(y)."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """x, what the layer was given before dropout, and y [..., D], what it made of it -> [..., D]."""
        return self.norm(y)  # type: ignore[no-any-return]


class ResidualJoint(Joint):
    """norm(x + y). Residual connections between recurrent layers: Wu et al. 2016, sec. 3.1, arXiv:1609.08144."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """See Joint."""
        return self.norm(x + y)  # type: ignore[no-any-return]


def _norm(config: NormLayerConfig | None, width: int) -> nn.Module:
    return nn.Identity() if config is None else config.build(width)


@dataclass(frozen=True, kw_only=True)
class PlainJointConfig:
    """A layer is given what the one below it made, normalised if there is a norm (see Joint)."""

    kind: Literal["plain"] = "plain"
    norm_layer: NormLayerConfig | None = None  # of what each layer makes, the first one too

    def build(self, width: int, *, around: bool) -> Joint:
        """The joint of a layer of this width."""
        return Joint(_norm(self.norm_layer, width))


@dataclass(frozen=True, kw_only=True)
class ResidualJointConfig:
    """A layer adds to what it was given, in all layers above the first that are as wide as that (see ResidualJoint)."""

    kind: Literal["residual"] = "residual"
    norm_layer: NormLayerConfig | None = None  # of the sum

    def build(self, width: int, *, around: bool) -> Joint:
        """The joint of a layer of this width; `around`: it is above the first and was given that width too."""
        return (ResidualJoint if around else Joint)(_norm(self.norm_layer, width))


JointConfig = Annotated[PlainJointConfig | ResidualJointConfig, Field(discriminator="kind")]
