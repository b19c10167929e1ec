"""A model whose projections are products of bytes, or are helped by them."""

from __future__ import annotations

from torch import nn

from mtkit.hardware import cpu_has_byte_products
from mtkit.layers.int8_linear import Int8Linear
from mtkit.layers.positions.base import Position
from mtkit.layers.screened_linear import ScreenedLinear
from mtkit.models.interface import TranslationModel

LEAST_WEIGHTS = 1 << 16  # a smaller product of bytes gains less time than turning numbers into bytes and back takes


def quantise_projections(module: nn.Module) -> None:
    """Put bytes in place of the large projections below a module, but for those in position schemes, of tables."""
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            if child.weight.numel() >= LEAST_WEIGHTS:
                setattr(module, name, Int8Linear.of(child))
        elif not isinstance(child, Position):
            quantise_projections(child)


def screen_output(model: TranslationModel) -> None:
    """Let products of bytes say which pieces can be the most probable, where a processor has them.

    The projection then stays as it is also among bytes: it takes less time than one of bytes, and is exact.
    """
    if model.output.bias is None and cpu_has_byte_products():
        model.output = ScreenedLinear.of(model.output)
