"""Progress of a training: all of its state that is not a tensor, as an immutable value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mtkit.corpus.order.loader import DataPosition, UpdateData
from mtkit.training.config import DivergenceConfig, TrainingConfig
from mtkit.training.time_budget import BudgetProgress

AVERAGE_DECAY = 0.99  # of the loss's moving average: a horizon of 100 updates


@dataclass(frozen=True)
class ScoredUpdate:
    """Value of a validation (lower is better) and its update."""

    value: float
    update: int


@dataclass(frozen=True)
class BestUpdates:
    """Best validations so far.

    Attributes:
        ranked: the best validations, best first.
        since_best: number of validations since the best one.
    """

    ranked: tuple[ScoredUpdate, ...] = ()
    since_best: int = 0

    def add(self, scored: ScoredUpdate, *, keep: int) -> BestUpdates:
        """Include one more validation and keep the best `keep`; of equal values the earlier ranks first."""
        ranked = sorted((*self.ranked, scored), key=lambda s: (s.value, s.update))[:keep]
        is_best = ranked[0] == scored
        return replace(self, ranked=tuple(ranked), since_best=0 if is_best else self.since_best + 1)

    def updates(self) -> Sequence[int]:
        """Return the best updates, best first."""
        return [scored.update for scored in self.ranked]

    def should_stop(self, patience: int | None) -> bool:
        """Return whether `patience` validations in a row brought no improvement."""
        return patience is not None and self.since_best >= patience


@dataclass(frozen=True)
class LossTrend:
    """Trend of training loss and validation nll; checkpoints store it.

    Attributes:
        average_loss: moving average of the loss over updates where it was not too high; None before the first.
        updates_above: number of updates in a row with too high a loss.
        best_nll: of all validations; None before the first.
        validation_diverged: whether the last validation's nll was too high.
        recoveries: number of rollbacks.
        lr_factor: product of all reductions of the learning rate by rollbacks.
    """

    average_loss: float | None = None
    updates_above: int = 0
    best_nll: float | None = None
    validation_diverged: bool = False
    recoveries: int = 0
    lr_factor: float = 1.0

    def after_update(self, loss: float, config: DivergenceConfig | None) -> LossTrend:
        """Return the trend after an update with this mean loss; unchanged without a configuration."""
        if config is None:
            return self
        if self.average_loss is None:
            return replace(self, average_loss=loss)
        if loss > config.loss_factor * self.average_loss:
            return replace(self, updates_above=self.updates_above + 1)
        average = AVERAGE_DECAY * self.average_loss + (1 - AVERAGE_DECAY) * loss
        return replace(self, average_loss=average, updates_above=0)

    def after_validation(self, nll: float, config: DivergenceConfig | None) -> LossTrend:
        """Return the trend after a validation with this nll; unchanged without a configuration."""
        if config is None:
            return self
        best = nll if self.best_nll is None else self.best_nll
        return replace(self, validation_diverged=nll > config.nll_factor * best, best_nll=min(nll, best))

    def has_diverged(self, config: DivergenceConfig) -> bool:
        """Return whether the training has diverged."""
        return self.validation_diverged or self.updates_above >= config.updates


@dataclass(frozen=True)
class Progress:
    """Progress after an update; checkpoints store it.

    Attributes:
        update: number of updates applied.
        position: of the next update's data; skipped updates advance it too.
        src_tokens, tgt_tokens: real tokens of the applied updates, over all ranks.
        seconds: time of the updates, without validation and saving.
        processor_seconds: of these, the time that the threads of this process computed.
        validation_seconds: time of the validations.
        last_validated: last update that was validated, 0 for none.
        skipped, skipped_in_a_row: updates whose loss or gradient was not finite.
        loss_trend: for the detection of divergence.
        budget: within the time budget; None without one.
        validation_fingerprint: identity of the validation metric and data, see TrainingRun; "" before the first run.
    """

    update: int = 0
    position: DataPosition = field(default_factory=lambda: DataPosition(window=0, update=0))
    src_tokens: int = 0
    tgt_tokens: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    validation_seconds: float = 0.0
    last_validated: int = 0
    best_updates: BestUpdates = field(default_factory=BestUpdates)
    skipped: int = 0
    skipped_in_a_row: int = 0
    loss_trend: LossTrend = field(default_factory=LossTrend)
    budget: BudgetProgress | None = None
    validation_fingerprint: str = ""

    def after_update(self, data: UpdateData) -> Progress:
        """Return the progress after one more update."""
        return replace(
            self,
            update=self.update + 1,
            position=data.next_position,
            src_tokens=self.src_tokens + data.src_tokens,
            tgt_tokens=self.tgt_tokens + data.tgt_tokens,
            skipped_in_a_row=0,
        )

    def end_reason(self, config: TrainingConfig) -> str | None:
        """Return why training has ended after this update, or None; an ended training is not continued."""
        if self.update >= config.max_updates:
            return "max_updates" if config.max_epochs is None else "max_epochs"
        if self.best_updates.should_stop(config.patience):
            return "early_stopping"
        return "budget_hours" if self.budget is not None and self.budget.share >= 1 else None

    def with_metric(self, validation_fingerprint: str, former: str = "") -> Progress:
        """Return the progress without the validations of another metric or data, which are not comparable.

        `former` is the form that an earlier version gave the same fingerprint.
        """
        if self.validation_fingerprint in ("", validation_fingerprint, former):
            return replace(self, validation_fingerprint=validation_fingerprint)
        return replace(
            self,
            validation_fingerprint=validation_fingerprint,
            last_validated=0,
            best_updates=BestUpdates(),
            loss_trend=replace(self.loss_trend, best_nll=None, validation_diverged=False),
        )

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Progress:
        """Convert from a checkpoint's JSON."""
        best_updates = BestUpdates(
            ranked=tuple(ScoredUpdate(**scored) for scored in state["best_updates"]["ranked"]),
            since_best=state["best_updates"]["since_best"],
        )
        position, loss_trend = DataPosition(**state["position"]), LossTrend(**state["loss_trend"])
        known = {"position": position, "best_updates": best_updates, "loss_trend": loss_trend}
        if (budget := state.get("budget")) is not None:
            known["budget"] = BudgetProgress(**{**budget, "regular": tuple(budget["regular"])})
        return cls(**{**state, **known})
