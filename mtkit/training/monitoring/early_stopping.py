"""Best validations of a training, and early stopping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


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

    def without(self, update: int) -> BestUpdates:
        """Remove the validation of an update."""
        return replace(self, ranked=tuple(scored for scored in self.ranked if scored.update != update))

    def includes(self, update: int) -> bool:
        """Return whether an update is among the best."""
        return update in self.updates()

    def updates(self) -> Sequence[int]:
        """Return the best updates, best first."""
        return [scored.update for scored in self.ranked]

    def should_stop(self, patience: int | None) -> bool:
        """Return whether `patience` validations in a row brought no improvement."""
        return patience is not None and self.since_best >= patience
