"""Noticing that a training runs away from what it had learnt, so that it can go back and on with smaller steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

Factor = Annotated[float, Field(gt=1)]


MEMORY = 0.99  # of the moving average: some hundred updates


@dataclass(frozen=True, kw_only=True)
class DivergenceConfig:
    """When a training has run away, and what then; it goes back to its best checkpoint (see Course).

    Weights and optimiser are those of that checkpoint again; data and schedule go on from where they are, so that what
    led astray is not met in the same way.
    """

    loss_factor: Factor = 1.5  # a loss above that many times its moving average is too high
    updates: Annotated[int, Field(gt=0)] = 50  # with too high a loss in a row; one alone may be a hard batch
    nll_factor: Factor = 1.5  # a validation with that many times the lowest nll is enough
    shrink: Annotated[float, Field(gt=0, lt=1)] = 0.5  # of the learning rate, from then on
    most: Annotated[int, Field(gt=0)] = 3  # times; then training stops


@dataclass(frozen=True)
class Course:
    """Where loss and validation have been heading; part of what a checkpoint holds.

    Attributes:
        average: moving average of the loss over updates at which it was not too high; None before the first.
        above: for how many updates in a row it has been too high.
        lowest: nll of validation; None before the first.
        is_lost: whether the last validation was too bad.
        recoveries: how often training went back.
        share: of the learning rate, what these have left.
    """

    average: float | None = None
    above: int = 0
    lowest: float | None = None
    is_lost: bool = False
    recoveries: int = 0
    share: float = 1.0

    def learnt(self, loss: float, config: DivergenceConfig | None) -> Course:
        """With one more update, whose mean loss was this; the same if nobody asks."""
        if config is None:
            return self
        if self.average is None:
            return replace(self, average=loss)
        if loss > config.loss_factor * self.average:
            return replace(self, above=self.above + 1)
        return replace(self, average=MEMORY * self.average + (1 - MEMORY) * loss, above=0)

    def judged(self, nll: float, config: DivergenceConfig | None) -> Course:
        """With one more validation; the same if nobody asks."""
        if config is None:
            return self
        lowest = nll if self.lowest is None else self.lowest
        return replace(self, is_lost=nll > config.nll_factor * lowest, lowest=min(nll, lowest))

    def has_diverged(self, config: DivergenceConfig) -> bool:
        """Whether to go back."""
        return self.is_lost or self.above >= config.updates

    def recovered(self, config: DivergenceConfig) -> Course:
        """After going back."""
        share = self.share * config.shrink
        return replace(self, above=0, is_lost=False, recoveries=self.recoveries + 1, share=share)
