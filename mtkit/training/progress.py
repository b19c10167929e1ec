"""How far a training has come: everything of its state that is not a tensor, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mtkit.corpus.order.loader import Position, Update
from mtkit.training.monitoring.early_stopping import Ranking, Scored
from mtkit.training.robustness.divergence import Course


@dataclass(frozen=True)
class Progress:
    """After some number of updates.

    Attributes:
        update: how many updates were applied.
        position: of the next update to draw; it runs ahead of `update` by those that were skipped.
        src_tokens, tgt_tokens: real tokens of the applied updates, over all ranks.
        seconds: spent in updates, validation and saving not counted.
        validated: the last update that was validated, 0 for none.
        ranking: the best validations.
        skipped, skipped_in_a_row: draws whose loss or gradient was not finite.
        course: where loss and validation have been heading.
        measure: by which the validations were, see `Surroundings`; "" if nobody knows.
    """

    update: int = 0
    position: Position = field(default_factory=lambda: Position(window=0, update=0))
    src_tokens: int = 0
    tgt_tokens: int = 0
    seconds: float = 0.0
    validated: int = 0
    ranking: Ranking = field(default_factory=Ranking)
    skipped: int = 0
    skipped_in_a_row: int = 0
    course: Course = field(default_factory=Course)
    measure: str = ""

    def applied(self, drawn: Update) -> Progress:
        """With one more update."""
        return replace(
            self,
            update=self.update + 1,
            position=drawn.position,
            src_tokens=self.src_tokens + drawn.src_tokens,
            tgt_tokens=self.tgt_tokens + drawn.tgt_tokens,
            skipped_in_a_row=0,
        )

    def skipping(self, drawn: Update) -> Progress:
        """With one more draw that changed nothing."""
        return replace(
            self, position=drawn.position, skipped=self.skipped + 1, skipped_in_a_row=self.skipped_in_a_row + 1
        )

    def measured(self, measure: str) -> Progress:
        """With validations by this measure; those by another one can't be compared with them and are forgotten."""
        if self.measure in ("", measure):
            return replace(self, measure=measure)
        course = replace(self.course, lowest=None, is_lost=False)
        return replace(self, measure=measure, validated=0, ranking=Ranking(), course=course)

    def to_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Progress:
        """From a checkpoint."""
        ranking = Ranking(
            best=tuple(Scored(**scored) for scored in state["ranking"]["best"]),
            since_best=state["ranking"]["since_best"],
        )
        course = Course(**state["course"]) if "course" in state else Course()
        return cls(**{**state, "position": Position(**state["position"]), "ranking": ranking, "course": course})
