"""Dropout of recurrent models: a mask for each place, or one for all places of a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from mtkit.layers.dropout import Dropout


class FreshDropout(Dropout):
    """A mask of its own for every place (Zaremba et al. 2014, https://arxiv.org/abs/1409.2329)."""

    def unroll(self) -> Callable[[Tensor], Tensor]:
        """What drops of [rows, D] in the steps of one loop."""
        return self


class VariationalDropout(FreshDropout):
    """One mask for a sentence, the same at all its places.

    Gal & Ghahramani 2016, sec. 4. https://arxiv.org/abs/1512.05287
    Where training feeds one piece at a time (scheduled sampling), every call is a sentence of one place.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D], or [rows, D] for one place -> the same shape and type."""
        if not self.training or self.drop_levels == 0:
            return x
        return x * super().forward(torch.ones_like(x[:, :1] if x.dim() == 3 else x))

    def unroll(self) -> Callable[[Tensor], Tensor]:
        """See FreshDropout; the mask is drawn at the first step."""
        masks: list[Tensor] = []

        def drop(x: Tensor) -> Tensor:
            if not masks:
                masks.append(super(VariationalDropout, self).forward(torch.ones_like(x)))
            return x * masks[0]

        return drop if self.training and self.drop_levels else _keep


def _keep(x: Tensor) -> Tensor:
    return x


@dataclass(frozen=True, kw_only=True)
class FreshConfig:
    """A mask for each place; nothing is dropped inside the recurrence (see FreshDropout)."""

    kind: Literal["fresh"] = "fresh"
    state: ClassVar[float] = 0.0  # of a state where a cell multiplies it with its weights

    def build(self, p: float) -> FreshDropout:
        """Dropout with probability p."""
        return FreshDropout(p)


@dataclass(frozen=True, kw_only=True)
class VariationalConfig:
    """One mask for a sentence, also inside the recurrence (see VariationalDropout)."""

    kind: Literal["variational"] = "variational"
    state: Annotated[float, Field(ge=0, lt=1)] = 0.2  # of a state where a cell multiplies it with its weights

    def build(self, p: float) -> FreshDropout:
        """Dropout with probability p."""
        return VariationalDropout(p)


DropoutMasksConfig = Annotated[FreshConfig | VariationalConfig, Field(discriminator="kind")]
