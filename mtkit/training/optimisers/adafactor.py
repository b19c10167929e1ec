"""Adafactor: Adam's second moments of a matrix from those of its rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from mtkit.training.optimisers.torch_optimisers import NonNegative, Rate, decayed_groups


@dataclass(frozen=True, kw_only=True)
class AdafactorConfig:
    """Adafactor (Shazeer & Stern 2018, algorithms 4 and 5), as torch has it. https://arxiv.org/abs/1804.04235.

    Nearly no memory. The rate is relative: an update moves a matrix by that share of its own root mean square; the
    schedule's rate is further bounded by 1/sqrt(update).
    """

    kind: Literal["adafactor"] = "adafactor"
    learning_rate: Rate = 1e-2  # at the schedule's peak, of a matrix's root mean square; sec. 9
    decay: Rate = 0.8  # of second moments at update t: 1 - t^-decay; sec. 7.2
    clip: Rate = 1.0  # of the root mean square of an update; sec. 6
    least_scale: Rate = 1e-3  # of a matrix, so that what begins at 0 can move; eps2
    weight_decay: NonNegative = 0.0  # times the rate, per update, of matrices

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimiser over all trainable parameters of `model`, in two groups."""
        return torch.optim.Adafactor(
            decayed_groups(model, self.weight_decay, self.learning_rate),
            lr=self.learning_rate,
            beta2_decay=-self.decay,
            eps=(None, self.least_scale),
            d=self.clip,
        )
