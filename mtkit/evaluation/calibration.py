"""Token accuracy and calibration: how often the most probable token is the right one, and its probability."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

NUM_BINS = 15  # Guo et al. 2017, table 1


@dataclass(frozen=True)
class Calibration:
    """Counts of predicted tokens by confidence, the probability of the most probable token.

    Bin m = 0 ... NUM_BINS - 1 holds the confidences in (m / NUM_BINS, (m + 1) / NUM_BINS]. A prediction is correct if
    no token is more probable than that of the reference.

    Attributes:
        tokens: predictions in each bin.
        correct: correct predictions in each bin.
        confidence: sum of the confidences in each bin.
    """

    tokens: tuple[int, ...] = (0,) * NUM_BINS
    correct: tuple[int, ...] = (0,) * NUM_BINS
    confidence: tuple[float, ...] = (0.0,) * NUM_BINS

    @classmethod
    def of(cls, confidence: ArrayLike, is_correct: ArrayLike) -> Self:
        """The counts of some predictions, both [N]."""
        values = np.asarray(confidence, dtype=np.float64)
        bins = np.clip(np.ceil(values * NUM_BINS).astype(np.int64) - 1, 0, NUM_BINS - 1)
        tokens = np.bincount(bins, minlength=NUM_BINS)
        correct = np.bincount(bins, weights=np.asarray(is_correct, dtype=np.float64), minlength=NUM_BINS)
        total = np.bincount(bins, weights=values, minlength=NUM_BINS)
        return cls(tuple(tokens.tolist()), tuple(int(each) for each in correct), tuple(total.tolist()))

    @classmethod
    def sum(cls, parts: Iterable[Sequence[Sequence[float]]]) -> Self:
        """The counts of all parts, each as `counts` returns it; added in their order."""
        tokens, correct, confidence = np.zeros(NUM_BINS, np.int64), np.zeros(NUM_BINS, np.int64), np.zeros(NUM_BINS)
        for part in parts:
            tokens += np.asarray(part[0], dtype=np.int64)
            correct += np.asarray(part[1], dtype=np.int64)
            confidence += part[2]
        return cls(tuple(tokens.tolist()), tuple(correct.tolist()), tuple(confidence.tolist()))

    def counts(self) -> list[list[float]]:
        """Tokens, correct ones and confidence of each bin, as JSON."""
        return [list(self.tokens), list(self.correct), list(self.confidence)]

    @property
    def num_tokens(self) -> int:
        """Number of predictions."""
        return sum(self.tokens)

    @property
    def accuracy(self) -> float:
        """Fraction of correct predictions; 0 without predictions."""
        return sum(self.correct) / max(1, self.num_tokens)

    @property
    def expected_calibration_error(self) -> float:
        """Mean over all predictions of |accuracy - confidence| of their bin, 0 to 1.

        Guo et al. 2017, eq. 3. https://arxiv.org/abs/1706.04599
        """
        gaps = (abs(correct - total) for correct, total in zip(self.correct, self.confidence, strict=True))
        return sum(gaps) / max(1, self.num_tokens)

    def reliability(self) -> list[dict[str, Any]]:
        """The reliability diagram as a table: limits, tokens, accuracy and mean confidence of each bin with tokens."""
        return [
            {
                "from": round(m / NUM_BINS, 4),
                "to": round((m + 1) / NUM_BINS, 4),
                "tokens": self.tokens[m],
                "accuracy": self.correct[m] / self.tokens[m],
                "confidence": self.confidence[m] / self.tokens[m],
            }
            for m in range(NUM_BINS)
            if self.tokens[m]
        ]

    def as_dict(self) -> dict[str, Any]:
        """Accuracy, error and table, as in log.jsonl and in `score --json`."""
        return {
            "token_accuracy": self.accuracy,
            "ece": self.expected_calibration_error,
            "reliability": self.reliability(),
        }
