"""Readouts: from a recurrent decoder's state, context and input to the input of the output projection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mtkit.layers.projections import linear
from mtkit.layers.recurrent.deferred_weight_grad import recurrent_linear

if TYPE_CHECKING:
    from mtkit.layers.recurrent.config import MaxoutReadoutConfig, TanhReadoutConfig


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
