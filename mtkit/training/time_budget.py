"""Time budget of a training: its schedule and its end follow the share of `training.budget_hours` that is spent.

The number of updates within a budget is not known beforehand: other programs come and go. So a budget counts the time
from the start of the command, preparing included, and everything that depends on the update follows the time: an update
at which half of the training time is spent has the learning rate of half of the schedule, on a machine that is faster
than expected as on a slower one. The end leaves the time that the last validation and the model are expected to take,
from the processor time of earlier ones and the load of the machine.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from mtkit.display import format_duration
from mtkit.errors import UsageError
from mtkit.training.config import TrainingConfig
from mtkit.training.distributed import ProcessGroup
from mtkit.training.monitoring.meter import Stopwatch

AIM = 0.97  # of the budget: what takes longer than expected ends late, and more often than what takes less ends early
TIMINGS = 9  # of recent updates, whose median counts: a stall is no new speed
TIMING_SHARE = 1 / 400  # of the budget is the least time of a timing, in which many fast updates are averaged
SAVES = 2.5  # times that writing a checkpoint takes: the last one, reading it, and the model folder
LATE = 1.03  # of the budget; a last validation that would end later is left out
MAX_RESERVE = 0.3  # of the budget
VALIDATION_SHARE = 0.05  # of the budget for all validations, except that there are a first and a last one


@dataclass(frozen=True)
class BudgetProgress:
    """Progress of a training within its time budget; checkpoints store it.

    Attributes:
        spent: seconds that the commands took so far, each from its start; time between two commands does not count.
        begun: of these, the seconds before the first update.
        share: of the schedule that is done, 0 to 1; training ends at 1.
        is_validation_due: a regular validation has not been made yet.
        regular: updates with a regular checkpoint.
        validation: processor seconds of the last validation.
        command: seconds of the command of a validation, which is another process.
        saving: processor seconds of writing the last checkpoint.
    """

    spent: float = 0.0
    begun: float | None = None
    share: float = 0.0
    is_validation_due: bool = False
    regular: tuple[int, ...] = ()
    validation: float = 0.0
    command: float = 0.0
    saving: float = 0.0


class _Timing(NamedTuple):
    """Seconds of an update, and seconds for each second of the processor: 1 with one thread on a free core."""

    seconds: float
    slowness: float


class TimeBudget:
    """Time budget of a call of `train`, in which all ranks follow the clock of the first; without one, updates alone.

    Args:
        progress: of the training before this call; None: it is new.
        since_start: time since the command started.
        watch: time of the updates, without validations and saving.

    Raises:
        UsageError: a new training has no time left.
    """

    def __init__(
        self,
        config: TrainingConfig,
        progress: BudgetProgress | None,
        *,
        since_start: Stopwatch,
        watch: Stopwatch,
        ranks: ProcessGroup,
    ) -> None:
        self._config, self._since_start, self._watch, self._ranks = config, since_start, watch, ranks
        self._seconds = 3600 * (config.budget_hours or 0.0)
        self._progress = progress or BudgetProgress()
        self._spent_before = self._progress.spent
        self.share = self._progress.share  # of the schedule, at the end of the update that is computed
        self._may_validate = False
        self._timings: deque[_Timing] = deque(maxlen=TIMINGS)
        self._timed, self._timed_updates = watch.times, 0
        if self.is_limited and progress is None:
            (begun,) = ranks.broadcast([self.spent])
            self._progress = BudgetProgress(begun=begun)
            if begun >= AIM * self._seconds:
                raise UsageError(
                    f"training.budget_hours: {format_duration(begun)} of {format_duration(self._seconds)} were spent "
                    "before the first update, so that none fits; run the same command again, since tokenizer and "
                    "corpus are kept, or give more time"
                )

    @property
    def is_limited(self) -> bool:
        """True if there is a budget."""
        return self._config.budget_hours is not None

    @property
    def spent(self) -> float:
        """Seconds of the budget that are spent."""
        return self._spent_before + self._since_start.seconds

    @property
    def is_spent(self) -> bool:
        """True if the last update reached the end of the schedule."""
        return self.is_limited and self._progress.share >= 1

    @property
    def seconds_left(self) -> float:
        """Expected seconds until the last update; without a budget infinite."""
        if not self.is_limited:
            return math.inf
        # reserved is the time from the last update to the written model
        reserve = min(self._validation_seconds + self._saving_seconds, MAX_RESERVE * self._seconds)
        return max(0.0, AIM * self._seconds - reserve - self.spent)

    @property
    def progress(self) -> BudgetProgress | None:
        """Progress for a checkpoint; None without a budget."""
        return replace(self._progress, spent=self.spent) if self.is_limited else None

    def begin_update(self, update: int, *, validation_seconds: float, saving_seconds: float) -> None:
        """Determine the share of the schedule that is done with an update.

        Args:
            validation_seconds: time of all validations so far.
            saving_seconds: processor time in which the last checkpoint was written; 0: there was none.
        """
        if not self.is_limited:
            return
        # a timing of recent updates, once it is long enough
        if self._timed_updates and self._watch.seconds - self._timed["seconds"] >= TIMING_SHARE * self._seconds:
            self._timings.append(self._timing())
            self._timed, self._timed_updates = self._watch.times, 0
        seconds = self._expected().seconds
        if saving_seconds:
            self._progress = replace(self._progress, saving=saving_seconds)
        done, left = self.spent - (self._progress.begun or 0.0), self.seconds_left
        is_last = left <= 1.5 * seconds  # a further update would end late by more than half of its time
        by_time = 1.0 if is_last else (done + seconds) / (done + left)
        share = max(self._progress.share, by_time, update / self._config.max_updates)
        # a regular validation must leave time for the last one
        may_validate = validation_seconds + 2 * self._validation_seconds <= VALIDATION_SHARE * self._seconds
        self.share, agreed = self._ranks.broadcast([share, may_validate])
        self._may_validate = bool(agreed)

    def _timing(self) -> _Timing:
        """Return the timing of the updates since the last one."""
        seconds, processor = (self._watch.times[name] - before for name, before in self._timed.items())
        return _Timing(seconds / self._timed_updates, seconds / processor if processor > 0 else 1.0)

    def _expected(self) -> _Timing:
        """Return the expected timing of the next update."""
        if self._timings:
            return _Timing(*map(median, zip(*self._timings, strict=True)))
        return self._timing() if self._timed_updates else _Timing(0.0, 1.0)

    @property
    def _validation_seconds(self) -> float:
        """Expected seconds of a validation; 0 before the first one."""
        return self._progress.validation * self._expected().slowness + self._progress.command

    @property
    def _saving_seconds(self) -> float:
        """Expected seconds from the last validation to the written model."""
        return SAVES * self._progress.saving * self._expected().slowness

    def scheduled_update(self, update: int) -> float:
        """Return the update of the schedule that an update has, from 1; without a budget the update itself."""
        return max(1.0, self.share * self._config.scheduled_updates) if self.is_limited else update

    def pace(self, update: int) -> float:
        """Return the updates of the schedule for each update so far; without a budget 1."""
        return self.scheduled_update(update) / update if self.is_limited else 1.0

    def finish_update(self, update: int) -> None:
        """Count an update that was applied."""
        config, before = self._config, self._progress
        is_kept = config.keep.every is not None and update % config.keep.every == 0
        is_regular = self.share >= 1 or is_kept or self._passes(config.checkpoint_every)
        self._timed_updates += 1
        self._progress = replace(
            before,
            share=self.share,
            is_validation_due=before.is_validation_due or self._passes(config.validate_every),
            regular=(*before.regular, update) if is_regular else before.regular,
        )

    def _passes(self, every: int) -> bool:
        """Return whether the schedule passes a multiple of a number of updates with the present update."""
        before, after = (
            share * self._config.scheduled_updates // every for share in (self._progress.share, self.share)
        )
        return after > before

    def has_time_to_validate(self) -> bool:
        """Return whether the last validation would end in time, as far as its time is known."""
        end = self.spent + self._validation_seconds + self._saving_seconds
        is_timely = not self.is_limited or not self._validation_seconds or end <= LATE * self._seconds
        return bool(self._ranks.broadcast([is_timely])[0])

    def finish_validation(self, took: Stopwatch) -> None:
        """Count a validation and the time that it took."""
        processor, has_command = took.processor_seconds, self._config.validation.command is not None
        command = max(0.0, took.seconds - processor) if has_command else 0.0
        self._progress = replace(self._progress, validation=processor, command=command, is_validation_due=False)

    def is_validation_due(self, update: int) -> bool:
        """Return whether a regular validation is due after an update, and within a budget affordable."""
        if not self.is_limited:
            return update % self._config.validate_every == 0
        return self._progress.is_validation_due and self._may_validate

    def is_checkpoint_regular(self, update: int) -> bool:
        """Return whether an update has a regular checkpoint."""
        if self.is_limited:
            return update in self._progress.regular
        return update % self._config.checkpoint_every == 0 or update == self._config.max_updates
