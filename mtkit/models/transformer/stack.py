"""The layers of an encoder or decoder in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from mtkit.layers.layer_call import Passing


class Stack(nn.ModuleList, Passing):
    """Distinct layers, and which of them stands at each place; in training a place may be passed over.

    LayerDrop: Fan et al. 2020, sec. 3.1. https://arxiv.org/abs/1909.11556 A sublayer adds to the residual stream, so
    that a layer left out leaves the stream as it is; outside training all are applied, without a change of scale.

    Args:
        make: gives the distinct layer of a number; called from 0 on.
        order: for each place the number of its layer.
        drop: how likely a place is passed over in training.
    """

    def __init__(self, make: Callable[[int], nn.Module], order: Sequence[int], drop: float) -> None:
        super().__init__(make(number) for number in range(max(order) + 1))
        self.order = tuple(order)
        self.drop = drop

    def passes(self) -> tuple[int, ...]:
        """The numbers of the layers that a whole sequence goes through this time."""
        if not self.training or self.drop == 0.0:
            return self.order
        kept = torch.rand(len(self.order)) >= self.drop
        return tuple(number for number, keep in zip(self.order, kept.tolist(), strict=True) if keep)
