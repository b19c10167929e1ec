"""From what a recurrent decoder knows at a step to the vector that is projected to the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.layers.linear import linear


class MaxoutReadout(nn.Module):
    """The largest of `pieces` linear maps, element by element.

    Goodfellow et al. 2013; Bahdanau et al. 2015, appendix A.2.2, with two pieces. https://arxiv.org/abs/1409.0473
    """

    def __init__(self, d_in: int, d_out: int, *, pieces: int) -> None:
        super().__init__()
        self.pieces = pieces
        self.linear = linear(d_in, pieces * d_out)

    def forward(self, x: Tensor) -> Tensor:
        """[..., d_in] -> [..., d_out]."""
        pieces: tuple[Tensor, ...] = self.linear(x).chunk(self.pieces, -1)
        return reduce(torch.maximum, pieces)


class TanhReadout(nn.Module):
    """tanh of a linear map, as in Luong et al. 2015, eq. 5. https://arxiv.org/abs/1508.04025"""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.linear = linear(d_in, d_out)

    def forward(self, x: Tensor) -> Tensor:
        """[..., d_in] -> [..., d_out]."""
        return self.linear(x).tanh()  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class MaxoutConfig:
    """Maxout readout (see MaxoutReadout)."""

    kind: Literal["maxout"] = "maxout"
    pieces: Annotated[int, Field(gt=1)] = 2  # the paper's

    def build(self, d_in: int, d_out: int) -> nn.Module:
        """The layer [..., d_in] -> [..., d_out]."""
        return MaxoutReadout(d_in, d_out, pieces=self.pieces)


@dataclass(frozen=True, kw_only=True)
class TanhConfig:
    """Tanh readout (see TanhReadout)."""

    kind: Literal["tanh"] = "tanh"

    def build(self, d_in: int, d_out: int) -> nn.Module:
        """The layer [..., d_in] -> [..., d_out]."""
        return TanhReadout(d_in, d_out)


ReadoutConfig = Annotated[MaxoutConfig | TanhConfig, Field(discriminator="kind")]
