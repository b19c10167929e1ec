"""Summary of the scores of given translations: perplexity, token accuracy and calibration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from mtkit.display import count_of
from mtkit.evaluation.calibration import NUM_BINS, Calibration
from mtkit.translate.score import MAX_NATS, ForcedScore


class ScoreSummary:
    """Adds up scores while they pass through `of`."""

    def __init__(self) -> None:
        self.lines = 0
        self.log_prob = 0.0
        self.calibration = Calibration()

    def of(self, scores: Iterable[ForcedScore]) -> Iterator[ForcedScore]:
        """The same scores, added to the summary."""
        for score in scores:
            self.lines += 1
            self.log_prob += score.log_prob
            if score.confidences:
                new = Calibration.of(score.confidences, score.is_correct)
                self.calibration = Calibration.sum([self.calibration.counts(), new.counts()])
            yield score

    @property
    def nll(self) -> float | None:
        """Nats per token, the end of sentence included; None without tokens."""
        return -self.log_prob / self.calibration.num_tokens if self.calibration.num_tokens else None

    @property
    def perplexity(self) -> float | None:
        """exp of the nats per token, finite for JSON; None without tokens."""
        return None if self.nll is None else math.exp(min(self.nll, MAX_NATS))

    def as_dict(self) -> dict[str, Any]:
        """The content of the JSON file."""
        counts = {"lines": self.lines, "tokens": self.calibration.num_tokens}
        calibration = self.calibration.as_dict()
        if not self.calibration.num_tokens:
            calibration = dict.fromkeys(calibration)
        return {**counts, "nll": self.nll, "perplexity": self.perplexity, **calibration}

    def line(self) -> str:
        """One line for the user."""
        calibration, counts = self.calibration, f"{count_of(self.lines, 'line')}, "
        if self.perplexity is None:
            return f"{counts}no tokens: all are blank, and there is nothing to score"
        return (
            f"{counts}{count_of(calibration.num_tokens, 'token')}: "
            f"perplexity {self.perplexity:,.2f}, token accuracy {100 * calibration.accuracy:.1f} %, "
            f"expected calibration error {100 * calibration.expected_calibration_error:.1f} % ({NUM_BINS} bins)"
        )
