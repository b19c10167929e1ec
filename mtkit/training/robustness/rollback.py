"""Rollback of a diverged training to its best checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from mtkit.errors import ComputeError, DamagedError
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


def roll_back(
    learner: Learner,
    folder: Path,
    progress: Progress,
    config: DivergenceConfig,
    *,
    has_diverged: bool,
    is_checkpoint_due: Callable[[int], bool],
) -> tuple[Progress, Path]:
    """Restore weights and optimiser of the best checkpoint; data and schedule continue from the present update.

    If no validated checkpoint is intact, the newest regular one from before the loss rose is restored. Irregular ones
    are not considered: they exist because the training was interrupted, which must not change its course. Checkpoints
    newer than the restored one are removed, so that neither an average nor a later rollback uses them.

    Args:
        learner: changed in place.
        folder: of the checkpoints, none of which is being written.
        progress: at the update where the training diverged.
        config: limit of the number of rollbacks, and the learning rate after this one.
        has_diverged: whether the present weights are bad; otherwise updates after them were skipped, and the checkpoint
            of the present update is one to return to.
        is_checkpoint_due: whether an update has a regular checkpoint.

    Returns:
        The progress after the rollback, and the restored checkpoint.

    Raises:
        ComputeError: the number of rollbacks is exhausted, or there is no checkpoint.
        ReadWriteError: a checkpoint cannot be removed.
    """
    trend = progress.loss_trend
    problem, hint = f"update {progress.update}: training has diverged", "lower training.optimiser.learning_rate"
    if trend.recoveries >= config.max_recoveries:
        raise ComputeError(f"{problem} after {trend.recoveries} rollbacks (on_divergence.max_recoveries)\n{hint}")
    # one choice for all ranks: another rank could find a checkpoint damaged that this one finds intact
    end = progress.update if has_diverged else progress.update + 1
    best = [update for update in progress.best_updates.updates() if update < end]
    regular = [update for update in reversed(list_checkpoints(folder)) if is_checkpoint_due(update)]
    older = [update for update in regular if update <= progress.update - trend.updates_above]
    chosen = _first_intact(folder, [*best, *older]) if learner.ranks.is_first else -1
    update = int(learner.ranks.broadcast([chosen])[0])
    if update < 0:
        raise ComputeError(f"{problem}, and there is no earlier checkpoint to return to\n{hint}")
    path = checkpoint_path(folder, update)
    learner.load(read_checkpoint(path).tensors)
    for newer in [each for each in list_checkpoints(folder) if each > update and learner.ranks.is_first]:
        remove_checkpoint(checkpoint_path(folder, newer))
    best_updates = progress.best_updates
    if update < progress.update:
        best_updates = best_updates.without(progress.update)  # that validation was of other weights
    trend = trend.after_rollback(config)
    return replace(progress, best_updates=best_updates, loss_trend=trend, skipped_in_a_row=0), path


def _first_intact(folder: Path, updates: Sequence[int]) -> int:
    """Return the first of these updates whose checkpoint exists and is intact; -1 if there is none."""
    for update in updates:
        try:
            verify_checkpoint(checkpoint_path(folder, update))
        except DamagedError:
            continue
        return update
    return -1
