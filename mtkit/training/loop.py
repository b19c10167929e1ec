"""Training loop: all updates of a training, resumed from the newest checkpoint of its run folder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.loader import UpdateSource
from mtkit.errors import DamagedError, is_oom
from mtkit.hardware import limit_onednn_cache
from mtkit.training.checkpoints.averaging import average_checkpoints
from mtkit.training.checkpoints.checkpoint import (
    Checkpoint,
    checkpoint_path,
    clean_up,
    latest_valid,
    list_checkpoints,
    read_checkpoint,
    verify_checkpoint,
)
from mtkit.training.learner import Learner
from mtkit.training.monitoring.meter import LossSums
from mtkit.training.monitoring.trackers import log_to_trackers
from mtkit.training.numerics import deterministic_algorithms
from mtkit.training.oom import explain_oom
from mtkit.training.progress import Progress, ScoredUpdate
from mtkit.training.run import TrainingRun
from mtkit.training.weights import weights


@dataclass(frozen=True)
class TrainingResult:
    """Result of a call of `train`.

    Attributes:
        finished: False if `max_hours` ended it; the same call resumes it.
        reason: see `Progress.end_reason`; or max_hours.
        update: number of updates applied.
        best: None if there was no validation.
        seconds: time of all updates, without validation and saving.
        tokens_per_second: real source and target tokens.
        numerics: record of numerics.py.
        weights: of the final model, on the CPU: the average, else the best, else the last; empty if not finished, and
            on all ranks except the first.
    """

    finished: bool
    reason: str
    update: int
    best: ScoredUpdate | None
    seconds: float
    tokens_per_second: float
    numerics: dict[str, Any]
    weights: dict[str, Tensor]

    def as_event(self) -> dict[str, Any]:
        """The fields of the log's event."""
        return {
            "reason": self.reason,
            "finished": self.finished,
            "best_update": self.best.update if self.best else None,
            "seconds": round(self.seconds, 1),
            "tokens_per_second": round(self.tokens_per_second, 1),
            "numerics": self.numerics,
        }


def train(run: TrainingRun, loader: UpdateSource) -> TrainingResult:
    """Train to the end of the recipe, from the newest intact checkpoint if there is one.

    Random numbers are a function of (seed, update, micro-batch), and the data is a function of its position. A training
    that is interrupted in any way and resumed therefore ends with the same bits. A finished training is not continued;
    its result is returned again. The caller holds the lock of the run folder.

    Raises:
        ComputeError: a loss or gradient is not finite (see `training.on_nonfinite`), training diverged too often,
            memory ran out, or an operation cannot satisfy `training.deterministic`.
        Interrupted: SIGINT, SIGTERM, SIGHUP or SIGUSR1; the state is saved.
        ReadWriteError: a checkpoint or the log could not be written.
        DamagedError: every checkpoint is damaged.
        MissingExtraError: a tracker is asked for and not installed.
    """
    config, learner = run.config, run.learner
    with ExitStack() as contexts:
        contexts.enter_context(deterministic_algorithms(enabled=config.deterministic))
        resume(run)
        trackers = config.trackers if run.ranks.is_first else []
        contexts.enter_context(log_to_trackers(run.log, run.folder, trackers, run.progress.update))
        contexts.enter_context(explain_oom())
        contexts.enter_context(run)
        # a signal may have interrupted the last call in a validation, before the rollback that it leads to
        run.validate()
        run.roll_back_if_diverged()
        for data in run.updates(loader):
            update = run.progress.update + 1
            # within a time budget, the schedule follows the time instead of the update
            scheduled = run.budget.scheduled_update(update)
            # each rollback has lowered the learning rate of all updates after it
            lr_factor = run.progress.loss_trend.lr_factor
            learning_rate = learner.start_update(update, lr_factor, scheduled_update=scheduled)
            sums = accumulate_gradients(learner, data.batches, update)  # forward, loss, backward
            # the last point where ranks may differ: from here on they decide from the same values
            run.sync_ranks(sums)
            grad_norm = learner.reduce_and_clip_gradients()
            if not math.isfinite(sums.mean() + float(grad_norm)):
                run.handle_nonfinite(data, sums, grad_norm)
                continue
            learner.step(update, run.budget.pace(update))
            run.record(data, sums, grad_norm)
            run.log_progress(learning_rate)
            # saved last: a checkpoint includes the validation and the rollback of its update
            run.validate()
            run.roll_back_if_diverged()
            run.save()
    return finish(run)


def accumulate_gradients(learner: Learner, batches: Sequence[Batch], update: int) -> LossSums:
    """Compute loss and gradient of each micro-batch; if memory runs out, again and in smaller parts."""
    tokens = learner.scored_tokens(batches)  # of the whole update, so that its gradient does not depend on the split
    while True:
        sums = LossSums()
        try:
            for losses in learner.losses(batches, update):
                learner.backward(losses.sum / tokens)
                sums.add(losses)
            return sums
        except (RuntimeError, MemoryError) as error:
            if not is_oom(error) or not learner.splitter.can_split:
                raise
        # outside of `except`, where the exception keeps its tensors alive
        learner.optimiser.zero_grad(set_to_none=True)
        learner.splitter.halve(batches)


def resume(run: TrainingRun) -> None:
    """Load the newest intact checkpoint, if there is one, and log where training continues."""
    learner, log, config = run.learner, run.log, run.config
    limit_onednn_cache()
    learner.model.train()
    checkpoint = newest_checkpoint(run)
    saved = Progress() if checkpoint is None else Progress.from_json(checkpoint.state["progress"])
    update, run.progress = saved.update, saved
    # after the end, the validations that have chosen the model count, whatever the metric is now
    if saved.end_reason(config) is None:
        run.progress = saved.with_metric(run.validation_fingerprint, run.former_fingerprint)
    if checkpoint is not None:
        learner.load(checkpoint.tensors)
        learner.load_scalar_state(checkpoint.state)
        log.rewind(update, is_validated=run.progress.last_validated == update)
        result = f"resuming from update {update:,} (--fresh starts over)"
        log.event("resume", update, checkpoint=str(checkpoint_path(run.checkpoints, update)), result=result)
        numerics = checkpoint.state.get("numerics", {})
        learner.numerics.use_same_library(numerics)
        if changes := learner.numerics.changes_since(numerics):
            result = f"{', '.join(changes)}: the weights will differ in rounding from those of an unchanged training"
            log.event("numerics_changed", update, result=result)
    if saved.best_updates != run.progress.best_updates:
        result = "the validation set or metric changed; best-checkpoint tracking was reset"
        log.event("metric_changed", update, result=result)
    log.event(
        "begin",
        update,
        max_updates=config.scheduled_updates,
        precision=learner.precision.name,
        device=str(learner.device),
        numerics=learner.numerics.to_json(),
        parameters=sum(p.numel() for p in learner.model.parameters()),
    )


def newest_checkpoint(run: TrainingRun) -> Checkpoint | None:
    """Read the newest intact checkpoint, which the first rank chooses for all, and log the damaged ones."""
    checkpoint: Checkpoint | None = None
    if run.ranks.is_first:
        clean_up(run.checkpoints)
        checkpoint, damaged = latest_valid(run.checkpoints)
        for path, reason in damaged.items():
            run.log.event("damaged", path=str(path), reason=reason)
    update = -1 if checkpoint is None else checkpoint.state["progress"]["update"]
    update = int(run.ranks.broadcast([update])[0])
    if update >= 0 and not run.ranks.is_first:
        checkpoint = read_checkpoint(checkpoint_path(run.checkpoints, update))
    return checkpoint


def finish(run: TrainingRun) -> TrainingResult:
    """Return the result of a training that has ended, or whose time is over, and log it."""
    progress, reason = run.progress, run.stop_reason() or ""
    finished = reason != "max_hours"
    tokens = progress.src_tokens + progress.tgt_tokens
    result = TrainingResult(
        finished=finished,
        reason=reason,
        update=progress.update,
        best=next(iter(progress.best_updates.ranked), None),
        seconds=progress.seconds,
        tokens_per_second=tokens / max(progress.seconds, 1e-9),
        numerics=run.learner.numerics.to_json(),
        weights=final_weights(run) if finished else {},
    )
    run.log.event("end", progress.update, **result.as_event())
    return result


def final_weights(run: TrainingRun) -> dict[str, Tensor]:
    """Return the weights of the final model on the first rank: the average, else the best, else the last.

    Checkpoints that have been damaged meanwhile are logged and left out.
    """
    average, progress, ranks = run.config.checkpoint_average, run.progress, run.ranks
    updates = progress.best_updates.updates()
    if average is None:
        # within a time budget, there may have been no time to validate once the rate had ended
        updates = [] if run.budget.is_spent and progress.last_validated != progress.update else updates[:1]
    elif average.which == "best":
        updates = updates[: average.count]
    else:
        regular = [
            update
            for update in list_checkpoints(run.checkpoints)
            # the last update need not be regular: patience or the time may have ended the training
            if run.budget.is_checkpoint_regular(update) or update == progress.update
        ]
        updates = regular[-average.count :] if len(regular) > 1 else updates[:1]
    intact = []
    for path in (checkpoint_path(run.checkpoints, update) for update in updates if ranks.is_first):
        try:
            verify_checkpoint(path)
            intact.append(path)
        except DamagedError as error:
            run.log.event("damaged", path=str(path), reason=str(error))
    parameters = run.learner.model.named_parameters() if ranks.world_size == 1 else ()
    frozen = {name: p.detach() for name, p in parameters if not p.requires_grad and p.is_cpu}
    if ranks.broadcast([len(intact)])[0]:
        return average_checkpoints(intact, frozen) if ranks.is_first else {}
    with run.learner.eval_model() as model:
        last = weights(model) if ranks.is_first else {}
        return {name: weight.to("cpu", copy=name not in frozen) for name, weight in last.items()}
