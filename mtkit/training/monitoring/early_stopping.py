"""Which validation was best, and whether to go on hoping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Scored:
    """A validated update; `value` is lower for better."""

    value: float
    update: int


@dataclass(frozen=True)
class Ranking:
    """The best validations so far, best first, and how many validations ago the best was."""

    best: tuple[Scored, ...] = ()
    since_best: int = 0

    def add(self, scored: Scored, *, keep: int) -> Ranking:
        """With one more validation; of equals the earlier is better."""
        ranked = sorted((*self.best, scored), key=lambda s: (s.value, s.update))[:keep]
        is_best = ranked[0] == scored
        return replace(self, best=tuple(ranked), since_best=0 if is_best else self.since_best + 1)

    def without(self, update: int) -> Ranking:
        """As if what was validated at this update were not worth keeping."""
        return replace(self, best=tuple(scored for scored in self.best if scored.update != update))

    def has(self, update: int) -> bool:
        """Whether this update is among the best."""
        return update in self.updates()

    def updates(self) -> Sequence[int]:
        """The updates of the best, best first."""
        return [scored.update for scored in self.best]

    def is_exhausted(self, patience: int | None) -> bool:
        """Whether `patience` validations in a row brought nothing better."""
        return patience is not None and self.since_best >= patience
