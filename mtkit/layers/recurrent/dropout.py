"""Dropout of recurrent models: a new mask at each step, or one mask for a whole sentence."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mtkit.layers.dropout import Dropout


class PerStepDropout(Dropout):
    """A new mask at each step (Zaremba et al. 2014, https://arxiv.org/abs/1409.2329)."""

    def make_step_fn(self) -> Callable[[Tensor], Tensor]:
        """Return the dropout of [rows, D] for the steps of one loop."""
        return self


class VariationalDropout(PerStepDropout):
    """One mask per sentence, the same at all steps.

    Gal & Ghahramani 2016, sec. 4. https://arxiv.org/abs/1512.05287
    Where training feeds single tokens (scheduled sampling), each call has a mask of its own.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D], or [rows, D] for one step -> the same shape and type."""
        if not self.training or self.drop_levels == 0:
            return x
        return x * super().forward(torch.ones_like(x[:, :1] if x.dim() == 3 else x))

    def make_step_fn(self) -> Callable[[Tensor], Tensor]:
        """See PerStepDropout; the mask is sampled at the first step."""
        masks: list[Tensor] = []

        def drop(x: Tensor) -> Tensor:
            if not masks:
                masks.append(super(VariationalDropout, self).forward(torch.ones_like(x)))
            return x * masks[0]

        return drop if self.training and self.drop_levels else _identity


def _identity(x: Tensor) -> Tensor:
    return x
