"""A model whose projections are products of bytes."""

from __future__ import annotations

from torch import nn

from mtkit.layers.int8_linear import Int8Linear
from mtkit.layers.position import Position

LEAST_WIDTH = 16  # projections to fewer outputs, such as the score of additive attention, keep their precision


def quantise_projections(module: nn.Module) -> None:
    """Put bytes in place of the projections below a module, but for those in position schemes, which are of tables."""
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            if child.out_features >= LEAST_WIDTH:
                setattr(module, name, Int8Linear.of(child))
        elif not isinstance(child, Position):
            quantise_projections(child)
