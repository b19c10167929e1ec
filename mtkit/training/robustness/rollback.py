"""TODO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

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
from mtkit.training.robustness.divergence import DivergenceConfig


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
