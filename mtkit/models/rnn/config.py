"""What a recipe says of recurrent layers, whatever they are stacked to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from mtkit.layers.projections import Width
from mtkit.layers.recurrent import CellConfig
from mtkit.layers.recurrent.cells import Cell
from mtkit.layers.recurrent.dropout import DropoutMasksConfig, FreshConfig, FreshDropout
from mtkit.layers.recurrent.stack import Joint, JointConfig, PlainJointConfig, RecurrentLayer, RecurrentStack


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """The parts of recurrent layers; defaults for Multi30k."""

    d_model: Width = 512
    d_embedding: Width = 256  # also the width of what is projected to the vocabulary
    joint: JointConfig = field(default_factory=PlainJointConfig)  # between layers: residual connections, norms
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.3  # embeddings, between layers, what is projected
    dropout_masks: DropoutMasksConfig = field(default_factory=FreshConfig)  # variational: one mask a sentence
    tied_embeddings: Literal["all", "target", "none"] = "target"  # all: source, target, softmax; target: the last two

    def longest_target(self) -> None:
        """Pieces that a translation can have, with its end: any number."""

    def build_dropout(self) -> FreshDropout:
        """Dropout of anything but states."""
        return self.dropout_masks.build(self.dropout)

    def build_cell(self, config: CellConfig, d_in: int) -> Cell:
        """A cell for inputs of width d_in."""
        return config.build(d_in, self.d_model, self.dropout_masks.state)

    def build_joints(self, d_in: Sequence[int], d_out: Sequence[int], *, above_first: bool = False) -> list[Joint]:
        """What follows layers of these widths; the lowest of them is the first of all unless `above_first`."""
        return [
            self.joint.build(out, around=width == out and (number > 0 or above_first))
            for number, (width, out) in enumerate(zip(d_in, d_out, strict=True))
        ]

    def build_stack(self, cells: Sequence[Cell], *, above_first: bool = False) -> RecurrentStack:
        """A stack of cells, each of which is given what the one below it makes."""
        widths = [cell.inputs.in_features for cell in cells]
        joints = self.build_joints(widths, [self.d_model] * len(cells), above_first=above_first)
        return RecurrentStack([RecurrentLayer(cell) for cell in cells], joints, self.build_dropout())
