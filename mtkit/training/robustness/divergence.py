"""Detection of a diverging training, which then returns to its best checkpoint (rollback.py)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from mtkit.config import Limits, config

Factor = Annotated[float, Limits(gt=1)]


AVERAGE_DECAY = 0.99  # of the loss's moving average: a horizon of 100 updates


@config
class DivergenceConfig:
    """Criteria of divergence, and the rollback to the best checkpoint that follows it (see LossTrend).

    The rollback restores weights and optimiser. Data and schedule continue from the present update, so that the same
    weights do not meet the same batches again.
    """

    # Multiple of its moving average above which a loss is too high. Default: above the noise of batches, which is
    # smaller.
    loss_factor: Factor = 1.5
    # Updates in a row with too high a loss that are a divergence. Default: a single one may be a hard batch.
    updates: Annotated[int, Limits(gt=0)] = 50
    # Multiple of the best validation nll above which a validation is a divergence by itself. Default: overfitting alone
    # is slower.
    nll_factor: Factor = 1.5
    # Factor of the learning rate after a rollback. Default: half, so that a few rollbacks find a stable rate.
    lr_shrink: Annotated[float, Limits(gt=0, lt=1)] = 0.5
    # Number of rollbacks; the next divergence stops the training. Default: after three, an eighth of the rate, the rate
    # is not the reason.
    max_recoveries: Annotated[int, Limits(gt=0)] = 3


@dataclass(frozen=True)
class LossTrend:
    """Trend of training loss and validation nll; checkpoints store it.

    Attributes:
        average_loss: moving average of the loss over updates where it was not too high; None before the first.
        updates_above: number of updates in a row with too high a loss.
        best_nll: of all validations; None before the first.
        validation_diverged: whether the last validation's nll was too high.
        recoveries: number of rollbacks.
        lr_factor: product of all reductions of the learning rate by rollbacks.
    """

    average_loss: float | None = None
    updates_above: int = 0
    best_nll: float | None = None
    validation_diverged: bool = False
    recoveries: int = 0
    lr_factor: float = 1.0

    def after_update(self, loss: float, config: DivergenceConfig | None) -> LossTrend:
        """Return the trend after an update with this mean loss; unchanged without a configuration."""
        if config is None:
            return self
        if self.average_loss is None:
            return replace(self, average_loss=loss)
        if loss > config.loss_factor * self.average_loss:
            return replace(self, updates_above=self.updates_above + 1)
        average = AVERAGE_DECAY * self.average_loss + (1 - AVERAGE_DECAY) * loss
        return replace(self, average_loss=average, updates_above=0)

    def after_validation(self, nll: float, config: DivergenceConfig | None) -> LossTrend:
        """Return the trend after a validation with this nll; unchanged without a configuration."""
        if config is None:
            return self
        best = nll if self.best_nll is None else self.best_nll
        return replace(self, validation_diverged=nll > config.nll_factor * best, best_nll=min(nll, best))

    def has_diverged(self, config: DivergenceConfig) -> bool:
        """Return whether the training has diverged."""
        return self.validation_diverged or self.updates_above >= config.updates

    def after_rollback(self, config: DivergenceConfig) -> LossTrend:
        """Return the trend after a rollback."""
        return replace(
            self,
            updates_above=0,
            validation_diverged=False,
            recoveries=self.recoveries + 1,
            lr_factor=self.lr_factor * config.lr_shrink,
        )
