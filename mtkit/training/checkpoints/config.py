"""Keys of a recipe on checkpoints: averages and what is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from mtkit.config import Limits, config

if TYPE_CHECKING:
    from torch import nn

    from mtkit.training.checkpoints.averaging import ExponentialMovingAverage


@config
class EMAConfig:
    """Exponential moving average of the weights; validation and the final model use it."""

    # Weight of the old average at an update. Default: a horizon of 500 updates, an eighth of 4,000.
    decay: Annotated[float, Limits(gt=0, lt=1)] = 0.998
    # Number of updates between two steps of the average. Default: averaging at every update costs 3% of the time.
    update_every: Annotated[int, Limits(gt=0)] = 4

    def build(self, model: nn.Module) -> ExponentialMovingAverage:
        """Build the average, starting from the model's current weights."""
        from mtkit.training.checkpoints.averaging import ExponentialMovingAverage

        return ExponentialMovingAverage(model, decay=self.decay, update_every=self.update_every)


@config
class CheckpointAverageConfig:
    """The final model is the mean of several checkpoints (Vaswani et al. 2017, sec. 6.1: the last 5, or 20)."""

    # Number of checkpoints that are averaged. Default: Vaswani et al. 2017, sec. 6.1.
    count: Annotated[int, Limits(gt=1)] = 5
    # Which checkpoints are averaged: the last ones, or the best by `training.validation.metric`. Default: last, as in
    # the paper.
    which: Literal["last", "best"] = "last"


@config
class RetentionConfig:
    """Checkpoints that are retained, besides those that `training.checkpoint_average` needs."""

    # Number of the latest checkpoints that are kept. Default: two, so that damage to the newest costs little.
    last: Annotated[int, Limits(gt=0)] = 2
    # Number of the best checkpoints by `training.validation.metric` that are kept. Default: 1, which becomes the model.
    best: Annotated[int, Limits(gt=0)] = 1
    # Number of updates whose multiples keep their checkpoint for ever. Default: null has none, since checkpoints are
    # large.
    every: Annotated[int, Limits(gt=0)] | None = None
