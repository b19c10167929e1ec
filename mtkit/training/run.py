"""One call of `train()`: what surrounds its updates (logging, validating, saving, refusing, ending)."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from torch import Tensor

from mtkit.corpus.order.loader import Position, Update
from mtkit.errors import Interrupted, TrainingError
from mtkit.hardware import peak_memory
from mtkit.training.checkpoints.checkpoint import Checkpoint, checkpoint_path
from mtkit.training.checkpoints.writer import CheckpointWriter
from mtkit.training.config import TrainingConfig
from mtkit.training.learner import Learner
from mtkit.training.monitoring.early_stopping import Scored
from mtkit.training.monitoring.log import Log
from mtkit.training.monitoring.meter import Meter, Stopwatch, Sums
from mtkit.training.monitoring.validation import Share, Validate, Validation
from mtkit.training.progress import Progress
from mtkit.training.robustness.divergence import DivergenceConfig
from mtkit.training.robustness.nonfinite import Evidence, some, write_evidence
from mtkit.training.robustness.rollback import go_back
from mtkit.training.robustness.signals import Signals


@dataclass(frozen=True)
class Surroundings:
    """What is given to a training besides what learns and what is learnt.

    Attributes:
        config: the recipe's `training:` section.
        folder: the run folder.
        log: where events go.
        validate: judges the model; None if there is nothing to judge by, the last weights are then the best.
        measure: values of validations can be compared while this is the same.
        called: runs since the call began of which this training is a part.
    """

    config: TrainingConfig
    folder: Path
    log: Log
    validate: Validate | None
    measure: str = ""
    called: Stopwatch = field(default_factory=Stopwatch)


class Draws(Protocol):
    """Where updates come from: the corpus loader."""

    def updates(self, start: Position) -> Generator[Update, None, None]:
        """The updates from a position on, without end."""
        ...


class Session:
    """The bookkeeping between two updates. Leaving its `with` block waits for the last checkpoint."""

    def __init__(self, learner: Learner, around: Surroundings, progress: Progress, *, signals: Signals) -> None:
        self.learner = learner
        self.around = around
        self.config = around.config
        self.progress = progress
        self.ranks = learner.ranks
        self.signals = signals
        self._parts = ExitStack()
        self._is_late = False
        self._signal: int | None = None  # that all ranks know of
        self._places = learner.room.places
        self.watch = Stopwatch(progress.seconds)
        self.meter = Meter(self.watch)
        self.writer = CheckpointWriter(around.folder / "checkpoints", is_wanted=self._is_wanted)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.close()
        self.writer.close(wait=kind is None)

    def draws(self, loader: Draws) -> Iterator[Update]:
        """The updates from where training stands, until it ends."""
        updates = self._parts.enter_context(closing(loader.updates(self.progress.position)))
        while not self.ending():
            yield next(updates)

    def agree(self, sums: Sums) -> None:
        """Have all ranks know the same of this update: losses, whether a signal came or time is up, and the room."""
        hours, room = self.config.max_hours, self.learner.room
        is_late = hours is not None and self.around.called.seconds >= hours * 3600
        if self.ranks.world_size > 1:
            said = self.ranks.texts(json.dumps([is_late, self.signals.received, room.places, sums.to_json()]))
            late, signals, places, shares = zip(*map(json.loads, said), strict=True)
            is_late = any(late)
            self._signal = max(filter(None, signals), default=None)
            room.places = min(filter(None, places), default=None)
            sums.take(shares)
        self._is_late = is_late
        if room.places != self._places:
            self._places = room.places
            self.around.log.event("out_of_memory", self.progress.update + 1, places=room.places)

    def apply(self, drawn: Update, sums: Sums, norm: Tensor) -> None:
        """Count an update that has been applied."""
        self.writer.check()
        course = self.progress.course.learnt(sums.mean(), self.config.on_divergence)
        self.progress = replace(self.progress.applied(drawn), course=course)
        self.meter.add(drawn, sums, norm)

    def refuse(self, drawn: Update, sums: Sums, norm: Tensor) -> None:
        """Leave out an update that is not finite: keep the evidence, and stop if the recipe says so.

        Raises:
            TrainingError: training has to stop; what was saved before is untouched.
            Interrupted: a signal came, and the state is on the disk.
        """
        loss = sums.mean()
        if self.learner.forget(loss):
            self.progress = replace(self.progress, position=drawn.position)
        else:
            self._skip(drawn, loss, norm)
        if self._stopped_by() is not None:
            raise self._interrupted()
        if self.ending():
            self._submit()

    def _skip(self, drawn: Update, loss: float, norm: Tensor) -> None:
        update = self.progress.update + 1
        samples = [int(sample) for batch in drawn.batches for sample in batch.samples]
        suffix = "" if self.ranks.is_first else f"-rank{self.ranks.rank}"
        path = self.around.folder / "nonfinite" / f"update-{update:08d}-{self.progress.skipped}{suffix}"
        facts = {"loss": str(loss), "grad_norm": str(float(norm)), "seed": self.config.seed, "samples": samples}
        write_evidence(Evidence(drawn.batches, {"update": update, **facts}), path)
        self.around.log.event("nonfinite", update, path=str(path), **facts)
        self.progress = self.progress.skipping(drawn)
        what = f"update {update}: loss {loss}, gradient norm {float(norm)}; the update was not made"
        where = f"samples {some(samples)}; the batch is in {path}"
        if self.config.on_nonfinite == "stop":
            remedy = "lower training.optimiser.learning_rate, or set training.on_nonfinite=skip"
            raise TrainingError(f"{what}\n{where}\n{remedy}")
        if self.progress.skipped_in_a_row >= self.config.max_skips:
            if self.config.on_divergence is not None:
                self._go_back(self.config.on_divergence)
                return
            raise TrainingError(f"{what}, nor were the {self.config.max_skips - 1} before\n{where}")

    def report(self, rate: float) -> None:
        """Log the updates since the last line, when it is time."""
        update = self.progress.update
        if update % self.config.log_every and not self.ending():
            return
        fields = self.meter.read()
        self.meter.reset()
        left = (self.config.max_updates - update) * fields["seconds_per_update"]
        others = {
            "seconds": round(self.watch.seconds, 1),
            "seconds_left": round(left, 1),
            "memory_gb": round(peak_memory(self.learner.device) / 1e9, 3),
            "truth_rate": self.config.truth_rate(update),
            **self.learner.proportions.read(),
        }
        self.around.log.event("train", update, rate=rate, **fields, **others)

    def validate(self) -> None:
        """Judge the model, when it is time and this has not been done.

        Raises:
            Interrupted: a signal came; the state is saved and this validation will be made up for.
        """
        update = self.progress.update
        is_due = update % self.config.validate_every == 0 or update == self.config.max_updates
        if self.around.validate is None or not is_due or self.progress.validated == update:
            return
        watch = Stopwatch()
        validation = self._judge(self.around.validate, update)
        if validation is None:
            raise self._interrupted()
        seconds = round(watch.seconds, 2)
        value = _finite(validation.value(self.config.validation.metric))
        if update % self.config.validate_every == 0:  # an extra one at the end must not bend a longer training
            self.learner.schedule.observe(value)
        ranking = self.progress.ranking.add(Scored(value, update), keep=self.config.kept_best)
        course = self.progress.course.judged(_finite(validation.nll), self.config.on_divergence)
        self.progress = replace(self.progress, validated=update, ranking=ranking, course=course)
        perplexity = math.exp(min(validation.nll, 700.0))
        fields = {"nll": validation.nll, "perplexity": perplexity, "bleu": validation.bleu, "sample": validation.sample}
        is_best = ranking.since_best == 0
        self.around.log.event("validation", update, **fields, is_best=is_best, seconds=seconds)

    def _judge(self, validate: Validate, update: int) -> Validation | None:
        """What all ranks find together; None if a signal cut one of them off."""
        with self.watch.paused(), self.learner.judged() as model:
            try:
                with self.signals.interruptible():
                    found = json.dumps(vars(validate.share(model, update, self.ranks)))
            except Interrupted:
                found = json.dumps(self.signals.received)
            shares = [json.loads(text) for text in self.ranks.texts(found)]
        if cut_off := [each for each in shares if isinstance(each, int)]:
            self._signal = max(cut_off)
            return None
        return validate.join([Share(**each) for each in shares])

    def recover(self) -> None:
        """Go back to the best checkpoint, when the recipe asks for it and training has run away.

        Raises:
            TrainingError: it did so too often, or there is nothing to go back to.
        """
        config = self.config.on_divergence
        if config is not None and self.progress.course.has_diverged(config):
            self._go_back(config)

    def _go_back(self, config: DivergenceConfig) -> None:
        with self.watch.paused():
            self.writer.wait()
            self.ranks.wait()
            folder, is_regular = self.writer.folder, self.config.is_regular
            self.progress, path = go_back(self.learner, folder, self.progress, config, is_regular=is_regular)
            self.ranks.wait()  # until all have read it, as the next one that is saved may take its place
        share = self.progress.course.share
        self.around.log.event("diverged", self.progress.update, checkpoint=str(path), rate_share=share)
        self._submit()  # in place of what was given up

    def save(self) -> None:
        """Save a checkpoint, when it is due, when the model is among the best, or when training ends here.

        Raises:
            Interrupted: a signal came, and the state is on the disk.
            ReadWriteError: this or the last checkpoint could not be written.
        """
        update = self.progress.update
        is_new_best = self.progress.validated == update and self.progress.ranking.has(update)
        if self._stopped_by() is not None:
            raise self._interrupted()
        if self.config.is_regular(update) or is_new_best or self.ending():
            self._submit()

    def _submit(self) -> None:
        if not self.progress.update:
            return  # draws were left out, but nothing has been learnt that a new beginning would not give again
        with self.watch.paused():
            self.progress = replace(self.progress, seconds=self.watch.seconds)
            state = {"progress": self.progress.to_json(), **self.learner.numbers()}
            tensors = self.learner.tensors() if self.learner.must_save else {}
            is_new = self.ranks.is_first and self.writer.submit(self.progress.update, Checkpoint(tensors, state))
        if is_new:
            path = checkpoint_path(self.writer.folder, self.progress.update)
            self.around.log.event("checkpoint", self.progress.update, path=str(path))

    def _interrupted(self) -> Interrupted:
        number = self._stopped_by() or 0
        self._submit()
        self.writer.wait()
        self.ranks.wait()
        self.around.log.event("interrupted", self.progress.update, signal=number)
        return Interrupted(
            number, f"interrupted after update {self.progress.update}; the same command goes on from there"
        )

    def _stopped_by(self) -> int | None:
        """The signal to stop for; among several ranks one that all know of, any other waits for the next update."""
        return self.signals.received if self.ranks.world_size == 1 else self._signal

    def ending(self) -> str | None:
        """Why training ends after this update, or None."""
        if self.progress.update >= self.config.max_updates:
            return "max_updates"
        if self.progress.ranking.is_exhausted(self.config.patience):
            return "early_stopping"
        return "max_hours" if self._is_late else None

    def _is_wanted(self, update: int, present: list[int]) -> bool:
        """Whether the checkpoint of an older update stays, given all that are present (the newest always does)."""
        if self._stopped_by() is not None:
            return True  # the validation that was cut off may find that training has to go back
        every = self.config.keep.every
        regular = [u for u in present if self.config.is_regular(u)]
        is_kept_for_ever = every is not None and update % every == 0
        is_best = self.progress.ranking.has(update)
        return is_kept_for_ever or is_best or update in regular[-self.config.kept_last :]


def _finite(value: float) -> float:
    """JSON has no infinity; what is not a number is as bad as can be."""
    return sys.float_info.max if math.isnan(value) else min(value, sys.float_info.max)
