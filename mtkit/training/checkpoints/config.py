"""Keys of a recipe on checkpoints: averages and what is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

if TYPE_CHECKING:
    from torch import nn

    from mtkit.training.checkpoints.ema import ExponentialMovingAverage


@dataclass(frozen=True, kw_only=True)
class EMAConfig:
    """Exponential moving average of the weights; validation and the final model use it."""

    decay: Annotated[float, Field(gt=0, lt=1)] = 0.998  # a horizon of 500 updates, an eighth of 4,000
    update_every: Annotated[int, Field(gt=0)] = 4  # updates; averaging at every update costs 3% of the time

    def build(self, model: nn.Module) -> ExponentialMovingAverage:
        """Build the average, starting from the model's current weights."""
        from mtkit.training.checkpoints.ema import ExponentialMovingAverage

        return ExponentialMovingAverage(model, decay=self.decay, update_every=self.update_every)


@dataclass(frozen=True, kw_only=True)
class CheckpointAverageConfig:
    """The final model is the mean of several checkpoints (Vaswani et al. 2017, sec. 6.1: the last 5, or 20)."""

    count: Annotated[int, Field(gt=1)] = 5  # Vaswani et al. 2017, sec. 6.1
    which: Literal["last", "best"] = "last"  # best by training.validation.metric


@dataclass(frozen=True, kw_only=True)
class RetentionConfig:
    """Checkpoints that are retained, besides those that `training.checkpoint_average` needs."""

    last: Annotated[int, Field(gt=0)] = 2  # two, so that damage to the newest costs little
    best: Annotated[int, Field(gt=0)] = 1  # by training.validation.metric
    every: Annotated[int, Field(gt=0)] | None = None  # updates; multiples of it are never removed
