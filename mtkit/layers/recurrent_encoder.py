"""A recurrent encoder: layers in both directions or in one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mtkit.layers.passage import Passing
from mtkit.layers.recurrent import BidirectionalLayer, RecurrentLayer
from mtkit.layers.recurrent_cell import CellState
from mtkit.layers.recurrent_joint import Joint


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
