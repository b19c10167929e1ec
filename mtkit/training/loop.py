"""Training: the loop over updates, from wherever a run folder stands to the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.errors import DamagedError
from mtkit.training.checkpoints.averaging import average_checkpoints
from mtkit.training.checkpoints.checkpoint import (
    Checkpoint,
    Damage,
    checkpoint_path,
    clear_leftovers,
    list_checkpoints,
    newest_good,
    read_checkpoint,
    verify_checkpoint,
)
from mtkit.training.distributed.process_group import Ranks
from mtkit.training.learner import Learner
from mtkit.training.monitoring.early_stopping import Scored
from mtkit.training.monitoring.meter import Sums
from mtkit.training.monitoring.tensorboard import curves
from mtkit.training.progress import Progress
from mtkit.training.robustness.deterministic import determinism
from mtkit.training.robustness.onednn_cache import bound_primitive_cache
from mtkit.training.robustness.oom import is_out_of_memory, remedied
from mtkit.training.robustness.signals import Signals
from mtkit.training.run import Draws, Session, Surroundings
from mtkit.training.weights import weights


@dataclass(frozen=True)
class TrainingResult:
    """What a call of `train` came to.

    Attributes:
        finished: False if it only ran out of time; the same call then goes on.
        reason: max_updates, early_stopping or max_hours.
        update: how many updates the model has seen.
        best: the best validation, its value lower for better; None if there was none.
        seconds: of all updates together, validation and saving left out.
        tokens_per_second: real source and target tokens.
        weights: of the final model, on the CPU: averaged, else the best, else the last; empty if not finished, and on
            all ranks but the first.
    """

    finished: bool
    reason: str
    update: int
    best: Scored | None
    seconds: float
    tokens_per_second: float
    weights: dict[str, Tensor]


def train(learner: Learner, loader: Draws, around: Surroundings) -> TrainingResult:
    """Train to the end of the recipe, from the newest good checkpoint if there is one.

    Randomness is a function of (seed, update, micro-batch) and the order of the data one of its position, so that a
    training that was stopped, by whatever, and continued ends with the same bits. A training that has ended is not
    continued; its result is given again. The caller holds the run folder's lock.

    Raises:
        TrainingError: a loss or gradient is not finite (see `training.on_nonfinite`), training diverged too often,
            memory does not suffice, or `training.deterministic` cannot be had.
        Interrupted: SIGINT, SIGTERM or SIGUSR1; the state is saved.
        ReadWriteError: a checkpoint or the log could not be written.
        DamagedError: every checkpoint is damaged.
        MissingExtraError: TensorBoard is asked for and not installed.
    """
    with determinism(is_wanted=around.config.deterministic):
        return _train(learner, loader, around)


def _train(learner: Learner, loader: Draws, around: Surroundings) -> TrainingResult:
    progress = resume(learner, around)
    is_drawn = around.config.tensorboard and learner.ranks.is_first
    board = curves(around.log, around.folder / "tensorboard", progress.update, is_wanted=is_drawn)
    with board, Signals() as signals, remedied(), Session(learner, around, progress, signals=signals) as session:
        session.validate()  # the one that an interruption cut off
        session.recover()
        for drawn in session.draws(loader):
            update = session.progress.update + 1
            rate = learner.begin(update, session.progress.course.share)
            sums = gradients(learner, drawn.batches, update)  # forward, loss, backward
            session.agree(sums)
            norm = learner.clip()
            if not math.isfinite(sums.mean() + float(norm)):
                session.refuse(drawn, sums, norm)
                continue
            learner.step(update)
            session.apply(drawn, sums, norm)
            session.report(rate)
            session.validate()
            session.recover()
            session.save()
    return conclude(session)


def gradients(learner: Learner, batches: Sequence[Batch], update: int) -> Sums:
    """Compute loss and gradient of each micro-batch; all anew and in smaller parts if memory ran out."""
    tokens = learner.scored_tokens(batches)
    while True:
        sums = Sums()
        try:
            for losses in learner.losses(batches, update):
                learner.backward(losses.sum / tokens)
                sums.add(losses)
            return sums
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error) or not learner.room.can_cut:
                raise
        learner.make_room(batches)  # here, where the error no longer holds what it was raised amidst


def resume(learner: Learner, around: Surroundings) -> Progress:
    """Give the learner the newest good checkpoint, if there is one, and say how far it had come."""
    folder = around.folder / "checkpoints"
    bound_primitive_cache()
    learner.model.train()
    checkpoint, damages = newest_of_all(folder, learner.ranks)
    progress = Progress()
    if checkpoint is not None:
        learner.load(checkpoint.tensors)
        learner.load_numbers(checkpoint.state)
        progress = Progress.from_json(checkpoint.state["progress"])
    known, progress = progress, _measured(progress, around)
    if checkpoint is not None:
        around.log.rewind(progress.update, is_validated=progress.validated == progress.update)
    for damage in damages:
        around.log.event("damaged", path=str(damage.path), reason=damage.reason)
    if checkpoint is not None:
        path = checkpoint_path(folder, progress.update)
        around.log.event("resume", progress.update, checkpoint=str(path))
    if known.ranking != progress.ranking:
        around.log.event("measure", progress.update, result="validation is another; the best is sought anew")
    around.log.event(
        "begin",
        progress.update,
        max_updates=around.config.max_updates,
        precision=learner.precision.name,
        device=str(learner.device),
        parameters=sum(p.numel() for p in learner.model.parameters()),
    )
    return progress


def _measured(progress: Progress, around: Surroundings) -> Progress:
    """Forget what was best by another measure, unless training has ended and chosen."""
    config = around.config
    has_ended = progress.update >= config.max_updates or progress.ranking.is_exhausted(config.patience)
    return progress if has_ended else progress.measured(around.measure)


def newest_of_all(folder: Path, ranks: Ranks) -> tuple[Checkpoint | None, list[Damage]]:
    """The newest good checkpoint, chosen by the first rank, which also clears away what is left over or damaged."""
    found: tuple[Checkpoint | None, list[Damage]] = (None, [])
    if ranks.is_first:
        clear_leftovers(folder)
        found = newest_good(folder)
    update = found[0].state["progress"]["update"] if found[0] is not None else -1
    chosen = int(ranks.from_first([update])[0])
    if ranks.is_first or chosen < 0:
        return found
    return read_checkpoint(checkpoint_path(folder, chosen)), []


def conclude(session: Session) -> TrainingResult:
    """The result of a training that has come to its end, or to the end of its time."""
    progress, reason = session.progress, session.ending() or ""
    finished = reason != "max_hours"
    best = progress.ranking.best[0] if progress.ranking.best else None
    tokens = progress.src_tokens + progress.tgt_tokens
    result = TrainingResult(
        finished=finished,
        reason=reason,
        update=progress.update,
        best=best,
        seconds=progress.seconds,
        tokens_per_second=tokens / max(progress.seconds, 1e-9),
        weights=final_weights(session) if finished else {},
    )
    session.around.log.event(
        "end",
        progress.update,
        reason=reason,
        finished=finished,
        best_update=best.update if best else None,
        seconds=round(result.seconds, 1),
        tokens_per_second=round(result.tokens_per_second, 1),
    )
    return result


def final_weights(session: Session) -> dict[str, Tensor]:
    """The weights that become the model: averaged, else the best, else the last; the first rank alone has them.

    A checkpoint that was damaged in the meantime is named in the log and left out.
    """
    ranks = session.ranks
    good = [path for path in _chosen(session) if _is_good(path, session)] if ranks.is_first else []
    if ranks.from_first([len(good)])[0]:
        return average_checkpoints(good) if ranks.is_first else {}
    with session.learner.judged() as model:
        return {name: weight.to("cpu", copy=True) for name, weight in weights(model).items()} if ranks.is_first else {}


def _chosen(session: Session) -> list[Path]:
    average, ranking = session.config.average, session.progress.ranking
    folder = session.around.folder / "checkpoints"
    if average is None or average.of == "best":
        count = average.checkpoints if average else 1
        return [checkpoint_path(folder, update) for update in ranking.updates()[:count]]
    regular = [path for update, path in list_checkpoints(folder).items() if session.config.is_regular(update)]
    return regular[-average.checkpoints :]


def _is_good(path: Path, session: Session) -> bool:
    try:
        verify_checkpoint(path)
    except DamagedError as error:
        session.around.log.event("damaged", path=str(path), reason=str(error))
        return False
    return True
