"""Noticing that a training runs away from what it had learnt, so that it can go back and on with smaller steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mtkit.errors import DamagedError, TrainingError
from mtkit.training.checkpoints.checkpoint import (
    checkpoint_path,
    list_checkpoints,
    read_checkpoint,
    remove_checkpoint,
    verify_checkpoint,
)
from mtkit.training.learner import Learner
from mtkit.training.progress import Progress

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


def go_back(
    learner: Learner,
    folder: Path,
    progress: Progress,
    config: DivergenceConfig,
    *,
    is_regular: Callable[[int], bool],
) -> tuple[Progress, Path]:
    """Give the learner the weights and the optimiser of the best checkpoint; data and schedule go on.

    Without one that was validated and is whole, it is the newest regular one from before the loss rose: others are
    there because somebody stopped the training, which must not change where it goes. Those after it are removed: what
    was given up is no part of a later average, nor to be gone back to.

    Args:
        learner: changed in place.
        folder: of the checkpoints, none of which is being written.
        progress: at the update that is given up.
        config: how often, and what becomes of the rate.
        is_regular: whether an update has a checkpoint whatever happens.

    Returns:
        How far training is now, and the checkpoint.

    Raises:
        TrainingError: it has gone back often enough, or there is no checkpoint.
        ReadWriteError: a checkpoint cannot be removed.
    """
    course = progress.course
    what, remedy = f"update {progress.update}: training has diverged", "lower training.optimiser.learning_rate"
    if course.recoveries >= config.most:
        raise TrainingError(f"{what}, having gone back {course.recoveries} times (on_divergence.most)\n{remedy}")
    best = [update for update in progress.ranking.updates() if update < progress.update]
    regular = [update for update in reversed(list_checkpoints(folder)) if is_regular(update)]
    older = [update for update in regular if update <= progress.update - course.above]
    chosen = _first_whole(folder, [*best, *older]) if learner.ranks.is_first else -1
    update = int(learner.ranks.from_first([chosen])[0])
    if update < 0:
        raise TrainingError(f"{what}, and there is no checkpoint from before to go back to\n{remedy}")
    path = checkpoint_path(folder, update)
    learner.load(read_checkpoint(path).tensors)
    for given_up in [there for there in list_checkpoints(folder) if there > update and learner.ranks.is_first]:
        remove_checkpoint(checkpoint_path(folder, given_up))
    ranking = progress.ranking.without(progress.update)  # that validation was not of these weights
    return replace(progress, ranking=ranking, course=course.recovered(config), skipped_in_a_row=0), path


def _first_whole(folder: Path, updates: Sequence[int]) -> int:
    """The first of these updates whose checkpoint is there and undamaged; -1 if there is none."""
    for update in updates:
        try:
            verify_checkpoint(checkpoint_path(folder, update))
        except DamagedError:
            continue
        return update
    return -1
