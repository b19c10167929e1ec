"""What learns: a model with its objective, optimiser and schedule, and the arithmetic of one update."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.checkpoints.ema import AfterUpdate, MovingAverage
from mtkit.training.config import TrainingConfig
from mtkit.training.distributed.fsdp import Shell, own_part, shard, total_norm, whole
from mtkit.training.distributed.process_group import ALONE, Ranks
from mtkit.training.monitoring.gradient_stats import Proportions
from mtkit.training.objectives.interface import TrainingObjective
from mtkit.training.optimisers.schedule import Schedule
from mtkit.training.optimisers.torch_optimisers import load_optimiser, optimiser_tensors, set_rate, trainable
from mtkit.training.precision import Precision, resolve_precision
from mtkit.training.robustness.oom import Room, stand_in
from mtkit.training.seeding import seed_everything
from mtkit.training.weights import load_weights, weights


@dataclass(frozen=True)
class Learner:
    """The parts of an update; `build_learner` makes one from a model and a recipe.

    Attributes:
        clip_norm: largest norm of the whole gradient, None for no limit.
        scaler: enlarges the loss for fp16; does nothing otherwise.
        room: cuts micro-batches for which there is no memory.
        proportions: looks at some of the updates.
        after_update: called in turn after every update.
        average: the one of them whose weights are validated and become the model, if any.
        ranks: the processes of the training.
        shell: takes the weights of a model that is sharded among them to be judged; None if it is not.
    """

    model: TranslationModel
    objective: TrainingObjective
    optimiser: torch.optim.Optimizer
    schedule: Schedule
    precision: Precision
    clip_norm: float | None
    seed: int
    scaler: torch.amp.GradScaler
    room: Room
    proportions: Proportions
    after_update: Sequence[AfterUpdate] = ()
    average: MovingAverage | None = None
    ranks: Ranks = ALONE
    shell: Shell | None = None

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def begin(self, update: int, share: float = 1.0) -> float:
        """Make ready for an update: no gradient, a share of the schedule's rate (which it gives), the objective."""
        self.optimiser.zero_grad(set_to_none=True)
        self.objective.set_update(update)
        return set_rate(self.optimiser, self.schedule(update) * share)

    def scored_tokens(self, batches: Sequence[Batch]) -> int:
        """How many tokens the update scores, over micro-batches and ranks."""
        return self.ranks.sum(sum(int(batch.scored.sum()) for batch in batches))

    def losses(self, batches: Sequence[Batch], update: int) -> Iterator[Losses]:
        """Forward and loss, one micro-batch after the other, each from its own seed, as is every part of one."""
        for turn, batch in enumerate(batches):
            number = turn * self.ranks.world_size + self.ranks.rank
            parts = self.room.parts(batch)
            for place, part in enumerate(parts):
                seed_everything(self.seed, update, number, *([place] if len(parts) > 1 else []))
                yield self._forward(part)
            if self.shell is not None and not parts:  # the others cannot gather weights without this one
                yield self._forward(stand_in(batch)).of_nothing()

    def _forward(self, batch: Batch) -> Losses:
        with self.precision.autocast():
            losses: Losses = self.model(batch.to(self.device), self.objective)
        return losses

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of the loss, a sum over tokens already divided by the update's tokens."""
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def make_room(self, batches: Sequence[Batch]) -> None:
        """Forget the gradients so far and cut micro-batches smaller from now on; these did not fit.

        Raises:
            TrainingError: they cannot be cut further.
        """
        self.optimiser.zero_grad(set_to_none=True)
        self.room.shrink(batches)

    def clip(self) -> Tensor:
        """Add the gradients of all ranks and bound the norm of the whole; gives the norm before, a scalar tensor."""
        self.ranks.add_gradients(self.model)
        self.scaler.unscale_(self.optimiser)
        gradients = [p.grad for p in trainable(self.model) if p.grad is not None]
        norm = total_norm(gradients)
        if self.clip_norm is not None and norm > self.clip_norm:
            torch._foreach_mul_([own_part(gradient) for gradient in gradients], self.clip_norm / norm)
        return norm

    def step(self, update: int) -> None:
        """Apply the gradient, then call what comes after an update."""
        with self.proportions.measuring(self.model, update):
            self.scaler.step(self.optimiser)
        self.scaler.update()
        for function in self.after_update:
            function(self.model, update)

    def forget(self, loss: float) -> bool:
        """Do not apply a gradient that is not finite.

        Says whether this only means that fp16's scale was too large, which is then lowered.
        """
        if not self.scaler.is_enabled():
            return False
        is_overflow = math.isfinite(loss) and self.scaler.get_scale() > 1
        self.scaler.update(None if is_overflow else self.scaler.get_scale())
        return is_overflow

    def averaged(self) -> AbstractContextManager[None]:
        """A block in which the model has the weights that are judged and kept."""
        return self.average.in_place(self.model) if self.average else nullcontext()

    @contextmanager
    def judged(self) -> Iterator[TranslationModel]:
        """A block with the model that is judged: whole, with the weights that are kept, and not training."""
        self.model.eval()
        try:
            with (
                self.averaged(),
                nullcontext(self.model) if self.shell is None else self.shell.filled(self.model) as it,
            ):
                yield it
        finally:
            self.model.train()

    @property
    def must_save(self) -> bool:
        """Whether this process has to take part in `tensors`."""
        return self.ranks.is_first or self.shell is not None

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Copies on the CPU of all that a checkpoint must hold, whole, by file and name."""
        live: dict[str, Mapping[str, Tensor]] = {
            "model": weights(self.model),
            "optimiser": optimiser_tensors(self.optimiser, self.model),
            **{function.name: function.tensors() for function in self.after_update},
        }
        return {
            file: {n: whole(t.detach()).to("cpu", copy=True) for n, t in part.items()} for file, part in live.items()
        }

    def load(self, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Go on from a checkpoint's tensors."""
        load_weights(self.model, tensors["model"])
        load_optimiser(self.optimiser, self.model, tensors["optimiser"])
        for function in self.after_update:
            function.load(tensors[function.name])

    def numbers(self) -> dict[str, Any]:
        """What a checkpoint must hold of the schedule, of the scaler and of the room."""
        return {"schedule": self.schedule.state(), "scaler": self.scaler.state_dict(), "room": self.room.places}

    def load_numbers(self, numbers: Mapping[str, Any]) -> None:
        """Go on from a checkpoint's numbers."""
        self.schedule.load(numbers["schedule"])
        self.scaler.load_state_dict(numbers["scaler"])
        self.room.places = numbers.get("room")


def build_learner(
    model: TranslationModel,
    objective: TrainingObjective,
    *,
    config: TrainingConfig,
    ranks: Ranks = ALONE,
    after_update: Sequence[AfterUpdate] = (),
) -> Learner:
    """The learner that a recipe describes, on the device where the model is.

    Raises:
        RecipeError: the precision is not one of this device.
    """
    device = next(model.parameters()).device
    if config.activation_checkpointing:
        model.recompute_layers()
    precision = resolve_precision(config.precision, device)
    shell = None
    if config.parallel == "fsdp" and ranks.world_size > 1:
        shell = Shell(model)
        shard(model, ranks.world_size, varies=config.varies)
    average = config.moving_average.build(model) if config.moving_average else None
    return Learner(
        model=model,
        objective=objective,
        optimiser=config.optimiser.build(model),
        schedule=config.schedule.build(config.max_updates),
        precision=precision,
        clip_norm=config.clip_norm,
        seed=config.seed,
        scaler=torch.amp.GradScaler(device.type, enabled=precision.name == "fp16"),
        room=Room(can_cut=device.type != "cpu" and shell is None),
        proportions=Proportions(config.log_every if config.log_parts else 0),
        after_update=(*((average,) if average else ()), *after_update),
        average=average,
        ranks=ranks,
        shell=shell,
    )
