"""Cleaning of parallel training data: filters on sentence pairs, and a report of what was dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.config import CleaningConfig
from mtkit.display import count_of

Reason = Literal["empty", "too_long", "ratio"]
REASONS: tuple[Reason, ...] = get_args(Reason)
_NUM_EXAMPLES = 5  # line numbers reported for each reason

_EXPLANATIONS: Mapping[Reason, str] = {
    "empty": "one side is empty",
    "too_long": "one side exceeds cleaning.max_length",
    "ratio": "the length ratio exceeds cleaning.max_ratio",
}


def rejection_reasons(
    config: CleaningConfig, src: NDArray[np.int64], tgt: NDArray[np.int64], *, prefix: int = 0
) -> NDArray[np.int8]:
    """The first reason for dropping each pair: its index in `REASONS`, or -1 for a pair that is kept.

    Args:
        src: [N] tokens of the source sides, without eos; 0 for a blank line.
        tgt: [N] tokens of the target sides, without eos; 0 for a blank line.
        prefix: tokens before every source, which count for `max_length` only.
    """
    longer, shorter = np.maximum(src, tgt), np.minimum(src, tgt)
    uneven = (longer > config.min_length_for_ratio) & (longer > config.max_ratio * shorter)
    rejected = (shorter == 0, np.maximum(src + prefix, tgt) > config.max_length, uneven)  # in the order of REASONS
    return np.select(rejected, range(len(rejected)), default=-1).astype(np.int8)


@dataclass
class CleaningReport:
    """The numbers of pairs read, kept, and dropped for each reason.

    Attributes:
        examples: line numbers (from 1) of the first dropped pairs, by reason.
        replaced_chars: U+2581 characters in the text, which sentencepiece reserves and which were replaced.
        tokens: of the kept pairs, both sides.
    """

    lines: int = 0
    dropped: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    examples: dict[Reason, list[int]] = field(default_factory=lambda: {reason: [] for reason in REASONS})
    replaced_chars: int = 0
    tokens: int = 0
    unknown_tokens: int = 0

    @property
    def kept(self) -> int:
        """Pairs that went into the corpus."""
        return self.lines - sum(self.dropped.values())

    def add(self, reasons: NDArray[np.int8], line_numbers: NDArray[np.int64]) -> None:
        """Count the next block of pairs [N] of the file (see `rejection_reasons`)."""
        for number, reason in enumerate(REASONS):
            indices = np.flatnonzero(reasons == number)
            self.dropped[reason] += len(indices)
            missing = _NUM_EXAMPLES - len(self.examples[reason])
            self.examples[reason] += [int(line_numbers[index]) for index in indices[:missing]]
        self.lines += len(reasons)

    def summary(self) -> list[str]:
        """The report in sentences: one line, and one more for each reason that occurred."""
        lines = [f"{self.kept:,} of {count_of(self.lines, 'pair')} kept"]
        for reason, count in self.dropped.items():
            if count:
                numbers = ", ".join(map(str, self.examples[reason])) + (", ..." if count > _NUM_EXAMPLES else "")
                lines.append(f"{count:,} dropped because {_EXPLANATIONS[reason]}: line {numbers}")
        if self.replaced_chars:
            lines.append(f"{self.replaced_chars:,} characters U+2581 replaced")
        if self.unknown_tokens:
            lines.append(f"{self.unknown_tokens:,} of {self.tokens:,} tokens unknown")
        return lines

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "lines": self.lines,
            "kept": self.kept,
            "dropped": dict(self.dropped),
            "examples": dict(self.examples),
            "replaced_chars": self.replaced_chars,
            "tokens": self.tokens,
            "unknown_tokens": self.unknown_tokens,
        }
