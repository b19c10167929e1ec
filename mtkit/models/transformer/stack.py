"""Stack of layers in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from mtkit.layers.layer_call import LayerStack


class Stack(nn.ModuleList, LayerStack):
    """Distinct layers and the order in which they are applied, with LayerDrop.

    LayerDrop: Fan et al. 2020, sec. 3.1. https://arxiv.org/abs/1909.11556 A sublayer adds to the residual stream, so
    that a skipped layer leaves the stream unchanged. Outside training all layers run, without rescaling.

    Args:
        make: makes a distinct layer, called with 0, 1, 2, ...
        order: index of the layer at each depth.
        layerdrop: probability in training that a depth is skipped.
    """

    def __init__(self, make: Callable[[int], nn.Module], order: Sequence[int], layerdrop: float) -> None:
        super().__init__(make(index) for index in range(max(order) + 1))
        self.order = tuple(order)
        self.layerdrop = layerdrop

    def sample_layers(self) -> tuple[int, ...]:
        """Indices of the layers to apply to a whole sequence this time."""
        return tuple(self.order[depth] for depth in self.sample_depths())

    def sample_depths(self) -> tuple[int, ...]:
        """Places in `order` of the layers to apply to a whole sequence this time."""
        if not self.training or self.layerdrop == 0.0:
            return tuple(range(len(self.order)))
        is_kept = torch.rand(len(self.order)) >= self.layerdrop
        return tuple(depth for depth, keep in enumerate(is_kept.tolist()) if keep)
