"""From what a recurrent decoder knows at a step to the vector that is projected to the vocabulary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.layers.projections import linear
from mtkit.layers.recurrent.deferred_weight_grad import loop_product


class Readout(nn.Module, ABC):
    """A linear map and what is done to its result."""

    linear: nn.Linear

    @abstractmethod
    def bend(self, y: Tensor) -> Tensor:
        """What follows the linear map."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., d_in] -> [..., d_out]."""
        return self.bend(self.linear(x))

    def unroll(self) -> Callable[[Tensor], Tensor]:
        """The same for the steps of one loop: [rows, d_in] -> [rows, d_out]; one gradient of the weights for all."""
        product = loop_product(self.linear)
        return lambda x: self.bend(product(x))


class MaxoutReadout(Readout):
    """The largest of `pieces` linear maps, element by element.

    Goodfellow et al. 2013; Bahdanau et al. 2015, appendix A.2.2, with two pieces. https://arxiv.org/abs/1409.0473
    """

    def __init__(self, d_in: int, d_out: int, *, pieces: int) -> None:
        super().__init__()
        self.pieces = pieces
        self.linear = linear(d_in, pieces * d_out)

    def bend(self, y: Tensor) -> Tensor:
        """The maximum."""
        pieces: tuple[Tensor, ...] = y.chunk(self.pieces, -1)
        return reduce(torch.maximum, pieces)


class TanhReadout(Readout):
    """tanh of a linear map, as in Luong et al. 2015, eq. 5. https://arxiv.org/abs/1508.04025"""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.linear = linear(d_in, d_out)

    def bend(self, y: Tensor) -> Tensor:
        """tanh."""
        return y.tanh()


@dataclass(frozen=True, kw_only=True)
class MaxoutConfig:
    """Maxout readout (see MaxoutReadout)."""

    kind: Literal["maxout"] = "maxout"
    pieces: Annotated[int, Field(gt=1)] = 2  # the paper's

    def build(self, d_in: int, d_out: int) -> Readout:
        """The layer [..., d_in] -> [..., d_out]."""
        return MaxoutReadout(d_in, d_out, pieces=self.pieces)


@dataclass(frozen=True, kw_only=True)
class TanhConfig:
    """Tanh readout (see TanhReadout)."""

    kind: Literal["tanh"] = "tanh"

    def build(self, d_in: int, d_out: int) -> Readout:
        """The layer [..., d_in] -> [..., d_out]."""
        return TanhReadout(d_in, d_out)


ReadoutConfig = Annotated[MaxoutConfig | TanhConfig, Field(discriminator="kind")]
