"""Learner: a model with its objective, optimiser and schedule, and the arithmetic of one update.

Model, objective and decoder input meet inside one forward pass, `model(batch, objective)`: the objective calls the
decoder input, which runs the decoder and returns the states of the scored positions, and turns these states into a loss
with the weight of the output projection. They meet there because parameters may be touched inside `model.forward` only.
With FSDP a parameter is a shard until the hook before that call gathers it, and again after the call. Activation
checkpointing and the auxiliary losses of layers rely on the same single entry point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mtkit.config import construct
from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.checkpoints.averaging import ExponentialMovingAverage
from mtkit.training.config import TrainingConfig
from mtkit.training.distributed import (
    SINGLE_PROCESS,
    ProcessGroup,
    UnshardedReplica,
    full_tensor,
    local_shard,
    shard_model,
    total_norm,
)
from mtkit.training.monitoring.meter import GradientStats
from mtkit.training.numerics import Numerics, Precision, resolve_precision, seed_everything
from mtkit.training.objectives.interface import TrainingObjective
from mtkit.training.oom import MicroBatchSplitter, dummy_micro_batch
from mtkit.training.optimisers.optimisers import load_optimiser, optimiser_tensors, set_lr, trainable
from mtkit.training.optimisers.schedule import Schedule
from mtkit.training.weights import freeze, load_weights, weights


@dataclass(frozen=True)
class Learner:
    """Parts of an update; `build_learner` builds it from a model and a recipe.

    Attributes:
        clip_norm: maximum norm of the whole gradient; None: no limit.
        scaler: scales the loss with fp16; the identity otherwise.
        splitter: splits micro-batches that do not fit into memory.
        gradient_stats: measured at some updates, for the log.
        ema: of the weights, for validation and the final model; None: the weights themselves.
        eval_replica: with FSDP, the unsharded copy for validation; None otherwise.
    """

    model: TranslationModel
    objective: TrainingObjective
    optimiser: torch.optim.Optimizer
    schedule: Schedule
    precision: Precision
    clip_norm: float | None
    seed: int
    scaler: torch.amp.GradScaler
    splitter: MicroBatchSplitter
    gradient_stats: GradientStats
    numerics: Numerics
    ema: ExponentialMovingAverage | None = None
    ranks: ProcessGroup = SINGLE_PROCESS
    eval_replica: UnshardedReplica | None = None

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.model.parameters()).device

    def start_update(self, update: int, lr_factor: float = 1.0, *, scheduled_update: float | None = None) -> float:
        """Reset the gradients and set the learning rate to `lr_factor` times the schedule's; return it.

        Args:
            update: number of the update, from 1.
            lr_factor: of all rollbacks so far.
            scheduled_update: where the objective is, and a schedule that ends at `max_updates`: with a time budget
                the update that belongs to the time spent (see TimeBudget). None: `update`.
        """
        self.optimiser.zero_grad(set_to_none=True)
        scheduled = update if scheduled_update is None else scheduled_update
        self.objective.set_update(scheduled)
        rate = self.schedule(scheduled if self.schedule.config.ends_at_max_updates else update)
        return set_lr(self.optimiser, rate * lr_factor)

    def scored_tokens(self, batches: Sequence[Batch]) -> int:
        """Return the number of scored tokens of an update, over its micro-batches and all ranks."""
        tokens = sum(int(batch.loss_mask.sum()) for batch in batches)
        return round(sum(row[0] for row in self.ranks.all_gather([tokens])))

    def losses(self, batches: Sequence[Batch], update: int) -> Iterator[Losses]:
        """Yield the losses of one micro-batch after another, each computed from a seed of its own."""
        for index, batch in enumerate(batches):
            # the loader deals micro-batches out in turn; their seeds must not depend on the number of ranks
            number = index * self.ranks.world_size + self.ranks.rank
            parts = self.splitter.split(batch)
            for part_number, part in enumerate(parts):
                seed_everything(self.seed, update, number, *([part_number] if len(parts) > 1 else []))
                yield self._forward(part)
            if self.eval_replica is not None and not parts:  # FSDP: the other ranks cannot gather weights without this
                yield self._forward(dummy_micro_batch(batch)).zeroed()

    def _forward(self, batch: Batch) -> Losses:
        with self.precision.autocast():
            losses: Losses = self.model(batch.to(self.device), self.objective)
        return losses

    def backward(self, loss: Tensor) -> None:
        """Accumulate the gradient of a loss that was divided by the update's tokens."""
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def reduce_and_clip_gradients(self) -> Tensor:
        """Sum the gradients over the ranks and clip the whole gradient; return its norm before, a scalar tensor."""
        self.ranks.all_reduce_gradients(self.model)
        self.scaler.unscale_(self.optimiser)
        gradients = [p.grad for p in trainable(self.model) if p.grad is not None]
        norm = total_norm(gradients)
        if self.clip_norm is not None and norm > self.clip_norm:
            torch._foreach_mul_([local_shard(gradient) for gradient in gradients], self.clip_norm / norm)
        return norm

    def step(self, update: int, pace: float = 1.0) -> None:
        """Apply the gradient, then update the EMA, whose horizon is counted in `pace` for each update."""
        with self.gradient_stats.measure(self.model, update):
            self.scaler.step(self.optimiser)
        self.scaler.update()
        if self.ema is not None:
            self.ema.update_from(self.model, update, pace)

    @contextmanager
    def eval_model(self) -> Iterator[TranslationModel]:
        """Provide the model that validation uses: unsharded, with the weights of the EMA, in eval mode."""
        self.model.eval()
        average = nullcontext() if self.ema is None else self.ema.swapped_in(self.model)
        replica = nullcontext(self.model) if self.eval_replica is None else self.eval_replica.loaded_from(self.model)
        try:
            with average, replica as model:  # the replica copies the weights when it is entered
                yield model
        finally:
            self.model.train()

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Return the full tensors of a checkpoint on the CPU, by file and name; with FSDP collective.

        All are copies, except frozen weights, which stay as they are.
        """
        frozen = {name for name, parameter in self.model.named_parameters() if not parameter.requires_grad}
        live: dict[str, Mapping[str, Tensor]] = {
            "model": weights(self.model),
            "optimiser": optimiser_tensors(self.optimiser, self.model),
            **({} if self.ema is None else {"ema": self.ema.weights}),
        }
        return {
            file: {name: full_tensor(t.detach()).to("cpu", copy=name not in frozen) for name, t in tensors.items()}
            for file, tensors in live.items()
        }

    def load(self, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Restore the tensors of a checkpoint."""
        load_weights(self.model, tensors["model"])
        load_optimiser(self.optimiser, self.model, tensors["optimiser"])
        if self.ema is not None:
            self.ema.load(tensors["ema"])

    def scalar_state(self) -> dict[str, Any]:
        """Return the state of schedule, scaler and splitter for a checkpoint, and the numerics that led to it."""
        return {
            "numerics": self.numerics.to_json(),
            "schedule": self.schedule.state(),
            "scaler": self.scaler.state_dict(),
            "max_padded_tokens": self.splitter.max_padded_tokens,
        }

    def load_scalar_state(self, state: Mapping[str, Any]) -> None:
        """Restore the state of schedule, scaler and splitter from a checkpoint."""
        self.schedule.load(state["schedule"])
        self.scaler.load_state_dict(state["scaler"])
        self.splitter.max_padded_tokens = state["max_padded_tokens"]


def build_learner(
    model: TranslationModel,
    objective: TrainingObjective,
    *,
    config: TrainingConfig,
    ranks: ProcessGroup = SINGLE_PROCESS,
) -> Learner:
    """Build the learner of a recipe on the device of the model, of which `training.freeze` is not trained.

    Raises:
        RecipeError: the device does not support the precision, or `training.freeze` names no module of the model.
    """
    freeze(model, config.freeze, key="training.freeze")
    device = next(model.parameters()).device
    if config.activation_checkpointing:
        model.checkpoint_layers()
    precision = resolve_precision(config.precision, device)
    eval_replica = None
    if config.parallel == "fsdp" and ranks.world_size > 1:
        eval_replica = UnshardedReplica(model)  # copied before the weights are sharded
        shard_model(model, ranks.world_size, has_variable_passes=config.has_variable_passes)
    ema = ExponentialMovingAverage(model, config.ema) if config.ema else None
    return Learner(
        model=model,
        objective=objective,
        optimiser=construct(config.optimiser, model),
        schedule=construct(config.schedule, config.scheduled_updates),
        precision=precision,
        clip_norm=config.clip_norm,
        seed=config.seed,
        scaler=torch.amp.GradScaler(device.type, enabled=precision.name == "fp16"),
        splitter=MicroBatchSplitter(can_split=device.type != "cpu" and eval_replica is None),
        gradient_stats=GradientStats(config.log_every if config.log_gradient_norms else 0),
        numerics=Numerics.of(device, ranks),
        ema=ema,
        ranks=ranks,
        eval_replica=eval_replica,
    )
