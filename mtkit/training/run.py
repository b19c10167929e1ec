"""Training run: bookkeeping between two updates (log, validation, checkpoints, rollback, stop conditions)."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from torch import Tensor

from mtkit.corpus.order.loader import UpdateData, UpdateSource
from mtkit.errors import ComputeError, DamagedError, Interrupted
from mtkit.hardware import peak_memory
from mtkit.training.checkpoints.checkpoint import (
    Checkpoint,
    CheckpointWriter,
    checkpoint_path,
    list_checkpoints,
    read_checkpoint,
    remove_checkpoint,
    verify_checkpoint,
)
from mtkit.training.config import DivergenceConfig, TrainingConfig
from mtkit.training.learner import Learner
from mtkit.training.monitoring.log import Log
from mtkit.training.monitoring.meter import BusyMachine, LossSums, Stopwatch, ThroughputMeter
from mtkit.training.monitoring.validation import ShardedValidator, Validation, ValidationShard
from mtkit.training.oom import dump_failed_update
from mtkit.training.pending_signal import PendingSignal
from mtkit.training.progress import Progress, ScoredUpdate
from mtkit.training.time_budget import TimeBudget


class TrainingRun:
    """One call of `train()`. Its `with` block surrounds the updates: on leaving it the last checkpoint is on the disk.

    Args:
        learner: the model and everything that updates it.
        config: the recipe's `training:` section, from which the learner was built.
        folder: the run folder; its checkpoints are in `checkpoints/`.
        validator: validates the model; None: there is no validation, and the last weights become the model.
        validation_fingerprint: identity of metric and data; values of validations with the same one are comparable.
        former_fingerprint: the form that an earlier version gave the same identity.
        since_start: time since the command started, which `max_hours` and `budget_hours` limit; None: since now.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        config: TrainingConfig,
        folder: Path,
        log: Log,
        validator: ShardedValidator | None,
        validation_fingerprint: str = "",
        former_fingerprint: str = "",
        since_start: Stopwatch | None = None,
    ) -> None:
        self.learner, self.ranks = learner, learner.ranks
        self.config, self.folder, self.log = config, folder, log
        self.validator = validator
        self.validation_fingerprint, self.former_fingerprint = validation_fingerprint, former_fingerprint
        self.progress = Progress()
        self.checkpoints = folder / "checkpoints"
        self._writer = CheckpointWriter(self.checkpoints, should_keep=self._should_keep)
        self._signals = PendingSignal()
        self._contexts = ExitStack()
        self._since_start = since_start or Stopwatch()
        self._out_of_time = False  # agreed by all ranks, see sync_ranks
        self._signal: int | None = None
        self._logged_limit: int | None = None

    def __enter__(self) -> Self:
        progress = self.progress
        self._watch = Stopwatch(progress.seconds, progress.processor_seconds)
        self.budget = TimeBudget(
            self.config, progress.budget, since_start=self._since_start, watch=self._watch, ranks=self.ranks
        )
        self._meter = ThroughputMeter(self._watch)
        self._logged_limit = self.learner.splitter.max_padded_tokens
        self._busy_machine = BusyMachine.of_training(self.learner.device)
        self._contexts.enter_context(self._signals)
        self._contexts.push(lambda kind, *_: self._writer.close(wait=kind is None))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._contexts.__exit__(kind, error, trace)

    def updates(self, loader: UpdateSource) -> Iterator[UpdateData]:
        """Yield the data of the updates from the present position until training stops."""
        updates = self._contexts.enter_context(closing(loader.updates(self.progress.position)))
        while not self.stop_reason():
            self.budget.begin_update(
                self.progress.update + 1,
                validation_seconds=self.progress.validation_seconds,
                saving_seconds=self._writer.seconds,
            )
            yield next(updates)

    def sync_ranks(self, sums: LossSums) -> None:
        """Make all ranks agree on this update's losses, on signals, on the end of its time and on OOM splitting.

        Ranks that disagreed would take different branches below, and wait for each other forever.
        """
        splitter, hours = self.learner.splitter, self.config.max_hours
        self._out_of_time = hours is not None and self._since_start.seconds >= hours * 3600
        self._signal = self._signals.received
        if self.ranks.world_size > 1:
            local = [self._out_of_time, self._signal, splitter.max_padded_tokens, sums.to_json()]
            gathered = map(json.loads, self.ranks.all_gather_text(json.dumps(local)))
            out_of_time, signals, limits, losses = zip(*gathered, strict=True)
            self._out_of_time = any(out_of_time)
            self._signal = max(filter(None, signals), default=None)
            splitter.adopt_smallest(limits)
            sums.merge_ranks(losses)
        if splitter.max_padded_tokens != self._logged_limit:
            self._logged_limit = splitter.max_padded_tokens
            self.log.event("out_of_memory", self.progress.update + 1, max_padded_tokens=self._logged_limit)

    def record(self, data: UpdateData, sums: LossSums, grad_norm: Tensor) -> None:
        """Record an update that has been applied."""
        self._writer.check()
        loss_trend = self.progress.loss_trend.after_update(sums.mean(), self.config.on_divergence)
        self.progress = replace(self.progress.after_update(data), loss_trend=loss_trend)
        self.budget.finish_update(self.progress.update)
        self._meter.add(data, sums, grad_norm)

    def handle_nonfinite(self, data: UpdateData, sums: LossSums, grad_norm: Tensor) -> None:
        """Skip an update whose loss or gradient is not finite, and dump its data.

        Raises:
            ComputeError: training stops; saved checkpoints are not affected.
            Interrupted: a signal was received; the state is saved.
        """
        loss, scaler = sums.mean(), self.learner.scaler
        # fp16: the loss is finite where only its scale was too high, which is lowered then
        is_overflow = scaler.is_enabled() and math.isfinite(loss) and scaler.get_scale() > 1
        if scaler.is_enabled():
            scaler.update(None if is_overflow else scaler.get_scale())
        if is_overflow:
            self.progress = replace(self.progress, position=data.next_position)
        else:
            self._skip(data, loss, float(grad_norm))
        if self._stop_signal() is not None:
            raise self._interrupted()
        if self.stop_reason():
            self._save()

    def _skip(self, data: UpdateData, loss: float, grad_norm: float) -> None:
        update = self.progress.update + 1
        samples = [int(sample) for batch in data.batches for sample in batch.sample_ids]
        suffix = "" if self.ranks.is_first else f"-rank{self.ranks.rank}"
        path = self.folder / "nonfinite" / f"update-{update:08d}-{self.progress.skipped}{suffix}"
        facts = {"loss": str(loss), "grad_norm": str(grad_norm), "seed": self.config.seed, "samples": samples}
        dump_failed_update(data.batches, {"update": update, **facts}, path)
        self.log.event("nonfinite", update, path=str(path), **facts)
        progress = self.progress
        self.progress = replace(
            progress,
            position=data.next_position,
            skipped=progress.skipped + 1,
            skipped_in_a_row=progress.skipped_in_a_row + 1,
        )
        problem = f"update {update}: loss {loss}, gradient norm {grad_norm}; the update was not applied"
        listed = ", ".join(str(sample) for sample in samples[:8])
        more = f" and {len(samples) - 8} more" if len(samples) > 8 else ""
        location = f"samples {listed}{more}; the batch is in {path}"
        if self.config.on_nonfinite == "stop":
            hint = "lower training.optimiser.learning_rate, or set training.on_nonfinite=skip"
            raise ComputeError(f"{problem}\n{location}\n{hint}")
        if self.progress.skipped_in_a_row >= self.config.max_skips:
            if self.config.on_divergence is None:
                raise ComputeError(f"{problem}, like the {self.config.max_skips - 1} before it\n{location}")
            self._roll_back(self.config.on_divergence, has_diverged=False)

    def log_progress(self, learning_rate: float) -> None:
        """Log the updates since the last log line, if a line is due."""
        update = self.progress.update
        if update % self.config.log_every and not self.stop_reason():
            return
        fields = self._meter.read()
        self._meter = ThroughputMeter(self._watch)
        by_updates = (self.config.max_updates - update) * fields["seconds_per_update"]
        others = {
            **{name: round(value, 1) for name, value in self._watch.times.items()},
            "seconds_left": round(min(by_updates, self.budget.seconds_left), 1),
            **({"scheduled_update": round(self.budget.scheduled_update(update), 1)} if self.budget.is_limited else {}),
            "memory_gb": round(peak_memory(self.learner.device) / 1e9, 3),
            "teacher_forcing_ratio": self.config.decoder_input.ratio_at(self.budget.scheduled_update(update)),
            **self.learner.gradient_stats.read(),
        }
        self.log.event("train", update, learning_rate=learning_rate, **fields, **others)
        if warning := self._busy_machine.warning(fields["seconds_per_update"]):
            self.log.event("busy", update, result=warning)

    def validate(self) -> None:
        """Validate the model, if a validation is due and has not been done.

        Raises:
            Interrupted: a signal was received; the state is saved, and the next call repeats this validation.
        """
        update = self.progress.update
        is_regular = self.budget.is_validation_due(update)
        is_due = is_regular or update == self.config.max_updates or self.budget.is_spent
        if self.validator is None or not is_due or self.progress.last_validated == update:
            return
        if self.budget.is_spent and not self.budget.has_time_to_validate():
            return  # the last weights become the model
        watch = Stopwatch()
        validation = self._validate_model(self.validator, update)
        seconds = round(watch.seconds, 2)
        self.progress = replace(self.progress, validation_seconds=self.progress.validation_seconds + seconds)
        if validation is None:
            raise self._interrupted()
        self.budget.finish_validation(watch)
        value = validation.value(self.config.validation.metric, self.config.validation.command_goal)
        best_updates = self.progress.best_updates
        if value is not None:
            best_updates = best_updates.add(ScoredUpdate(_finite(value), update), keep=self.config.keep_best)
        if value is not None and is_regular:  # an extra one at the end must not change the rate of a continued training
            self.learner.schedule.step_on_metric(_finite(value))
        loss_trend = self.progress.loss_trend.after_validation(_finite(validation.nll), self.config.on_divergence)
        self.progress = replace(self.progress, last_validated=update, best_updates=best_updates, loss_trend=loss_trend)
        is_best = value is not None and best_updates.since_best == 0
        self.log.event("validation", update, **validation.fields(), is_best=is_best, seconds=seconds)

    def _validate_model(self, validator: ShardedValidator, update: int) -> Validation | None:
        """Validate on all ranks; None if a signal interrupted one of them."""
        with self._watch.paused(), self.learner.eval_model() as model:
            try:
                with self._signals.interruptible():
                    result = json.dumps(vars(validator.validate_shard(model, update, self.ranks)))
            except Interrupted:
                result = json.dumps(self._signals.received)
            shards = [json.loads(text) for text in self.ranks.all_gather_text(result)]
        if signals := [each for each in shards if isinstance(each, int)]:
            self._signal = max(signals)
            return None
        return validator.merge_shards([ValidationShard(**each) for each in shards])

    def roll_back_if_diverged(self) -> None:
        """Return to the best checkpoint, if training has diverged and `on_divergence` is set.

        Raises:
            ComputeError: the number of rollbacks is exhausted, or there is no checkpoint.
        """
        config = self.config.on_divergence
        if config is not None and self.progress.loss_trend.has_diverged(config):
            self._roll_back(config, has_diverged=True)

    def _roll_back(self, config: DivergenceConfig, *, has_diverged: bool) -> None:
        """Restore weights and optimiser of the best checkpoint; data and schedule continue from the present update.

        If no validated checkpoint is intact, the newest regular one from before the loss rose is restored. Irregular
        ones are not considered: they exist because the training was interrupted, which must not change its course.
        Checkpoints newer than the restored one are removed, so that neither an average nor a later rollback uses them.

        Args:
            config: limit of the number of rollbacks, and the learning rate after this one.
            has_diverged: whether the present weights are bad; otherwise updates after them were skipped, and the
                checkpoint of the present update is one to return to.

        Raises:
            ComputeError: the number of rollbacks is exhausted, or there is no checkpoint.
            ReadWriteError: a checkpoint cannot be removed.
        """
        progress, trend = self.progress, self.progress.loss_trend
        problem, hint = f"update {progress.update}: training has diverged", "lower training.optimiser.learning_rate"
        with self._watch.paused():
            self._writer.wait()
            self.ranks.barrier()
            if trend.recoveries >= config.max_recoveries:
                reason = f"after {trend.recoveries} rollbacks (on_divergence.max_recoveries)"
                raise ComputeError(f"{problem} {reason}\n{hint}")
            # one choice for all ranks: another rank could find a checkpoint damaged that this one finds intact
            update = int(self.ranks.broadcast([self._best_checkpoint(has_diverged=has_diverged)])[0])
            if update < 0:
                raise ComputeError(f"{problem}, and there is no earlier checkpoint to return to\n{hint}")
            path = checkpoint_path(self.checkpoints, update)
            self.learner.load(read_checkpoint(path).tensors)
            for newer in [each for each in list_checkpoints(self.checkpoints) if each > update and self.ranks.is_first]:
                remove_checkpoint(checkpoint_path(self.checkpoints, newer))
            self.ranks.barrier()  # until all ranks have read the checkpoint, which the next one may replace
        best_updates, lr_factor = progress.best_updates, trend.lr_factor * config.lr_shrink
        if update < progress.update:  # the validation of the present update was of other weights
            ranked = tuple(scored for scored in best_updates.ranked if scored.update != progress.update)
            best_updates = replace(best_updates, ranked=ranked)
        recoveries = trend.recoveries + 1
        trend = replace(trend, updates_above=0, validation_diverged=False, recoveries=recoveries, lr_factor=lr_factor)
        self.progress = replace(progress, best_updates=best_updates, loss_trend=trend, skipped_in_a_row=0)
        self.log.event("diverged", progress.update, checkpoint=str(path), lr_factor=lr_factor)
        self._save()  # replaces the checkpoints that the rollback removed

    def _best_checkpoint(self, *, has_diverged: bool) -> int:
        """Return the update of the intact checkpoint that a rollback restores; -1 if there is none."""
        if not self.ranks.is_first:
            return -1
        progress = self.progress
        end = progress.update if has_diverged else progress.update + 1
        best = [update for update in progress.best_updates.updates() if update < end]
        regular = [u for u in reversed(list_checkpoints(self.checkpoints)) if self.budget.is_checkpoint_regular(u)]
        older = [update for update in regular if update <= progress.update - progress.loss_trend.updates_above]
        for update in [*best, *older]:
            try:
                verify_checkpoint(checkpoint_path(self.checkpoints, update))
                return update
            except DamagedError:
                continue
        return -1

    def save(self) -> None:
        """Save a checkpoint, if one is due, if the model is among the best, or if training stops here.

        Raises:
            Interrupted: a signal was received; the state is saved.
            ReadWriteError: this or the previous checkpoint could not be written.
        """
        update = self.progress.update
        is_new_best = self.progress.last_validated == update and update in self.progress.best_updates.updates()
        if self._stop_signal() is not None:
            raise self._interrupted()
        if self.budget.is_checkpoint_regular(update) or is_new_best or self.stop_reason():
            self._save()

    def _save(self) -> None:
        if not self.progress.update:
            return  # nothing was trained; a fresh start would skip the same updates
        with self._watch.paused():
            seconds, processor_seconds = self._watch.seconds, self._watch.processor_seconds
            self.progress = replace(
                self.progress, seconds=seconds, processor_seconds=processor_seconds, budget=self.budget.progress
            )
            state = {"progress": self.progress.to_json(), **self.learner.scalar_state()}
            is_collective = self.learner.eval_replica is not None
            tensors = self.learner.tensors() if self.ranks.is_first or is_collective else {}
            is_new = self.ranks.is_first and self._writer.submit(self.progress.update, Checkpoint(tensors, state))
        if is_new:
            path = checkpoint_path(self.checkpoints, self.progress.update)
            self.log.event("checkpoint", self.progress.update, path=str(path))

    def _interrupted(self) -> Interrupted:
        """Save the state and return the exception to raise."""
        signal, update = self._stop_signal() or 0, self.progress.update
        self._save()
        self._writer.wait()
        self.ranks.barrier()
        self.log.event("interrupted", update, signal=signal)
        return Interrupted(signal, f"interrupted after update {update}; run the same command again to resume")

    def _stop_signal(self) -> int | None:
        """Return the signal to stop for; with several ranks the agreed one, so that all stop at the same update."""
        return self._signals.received if self.ranks.world_size == 1 else self._signal

    def stop_reason(self) -> str | None:
        """Return why training stops after this update, or None: it has ended, or the time of this call is over."""
        reason = replace(self.progress, budget=self.budget.progress).end_reason(self.config)
        return reason or ("max_hours" if self._out_of_time else None)

    def _should_keep(self, update: int, present: list[int]) -> bool:
        """Return whether an older checkpoint is retained, given all updates that have one."""
        if self._stop_signal() is not None:
            return True  # the interrupted validation may yet detect divergence, and the rollback needs a checkpoint
        regular = [u for u in present if self.budget.is_checkpoint_regular(u)]
        is_permanent = self.config.keep.every is not None and update % self.config.keep.every == 0
        is_best = update in self.progress.best_updates.updates()
        return is_permanent or is_best or update in regular[-self.config.keep_last :]


def _finite(value: float) -> float:
    """Replace infinity, which JSON does not have, and NaN by the largest float."""
    return sys.float_info.max if math.isnan(value) else min(value, sys.float_info.max)
