"""Adafactor: Adam with second moments of a matrix factored into those of its rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import nn

from mtkit.training.optimisers.base import (
    NonNegative,
    OptimiserConfigBase,
    PositiveFloat,
    weight_decay_groups,
)


@dataclass(frozen=True, kw_only=True)
class AdafactorConfig(OptimiserConfigBase):
    """Adafactor (Shazeer & Stern 2018, algorithms 4 and 5), torch's implementation. https://arxiv.org/abs/1804.04235.

    Its state is a vector per row and per column of a matrix. The learning rate is relative: an update moves a matrix by
    that fraction of the matrix's root mean square. The schedule's rate is also bounded by 1/sqrt(update).
    """

    bytes_per_weight: ClassVar[int] = 0
    needs_whole_matrices: ClassVar[bool] = True

    kind: Literal["adafactor"] = "adafactor"
    learning_rate: PositiveFloat = 1e-2  # at the schedule's peak, relative to a matrix's root mean square; sec. 9
    decay_rate: PositiveFloat = 0.8  # second moments at update t decay by 1 - t^-decay_rate; sec. 7.2
    clip_threshold: Annotated[float, Field(ge=1)] = 1.0  # upper limit of the root mean square of an update; sec. 6
    min_scale: PositiveFloat = 1e-3  # lower limit of a matrix's root mean square, so that zeros can move; eps2
    weight_decay: NonNegative = 0.0  # of matrices, times the learning rate, per update

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`, in two groups."""
        return torch.optim.Adafactor(
            weight_decay_groups(model, self.weight_decay, self.learning_rate),
            lr=self.learning_rate,
            beta2_decay=-self.decay_rate,
            eps=(None, self.min_scale),
            d=self.clip_threshold,
        )
