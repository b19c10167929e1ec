"""Which sentence pairs are fit for training, and an account of those that are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

Reason = Literal["empty", "too_long", "ratio"]
REASONS: tuple[Reason, ...] = get_args(Reason)
_EXAMPLES = 5  # line numbers reported for each reason

_WORDS: Mapping[Reason, str] = {
    "empty": "a side is empty",
    "too_long": "a side is longer than cleaning.max_length",
    "ratio": "one side is cleaning.max_ratio times longer than the other",
}


@dataclass(frozen=True, kw_only=True)
class CleaningConfig:
    """Bounds on sentence pairs, in pieces. Pairs beyond them are left out and counted; nothing is cut.

    The defaults keep all of Multi30k; they are there for pairs that are no translations, and for memory.
    """

    max_length: Annotated[int, Field(gt=0)] = 256  # pieces of either side; attention costs its square
    max_ratio: Annotated[float, Field(ge=1)] = 9.0  # longer over shorter side (Moses' clean-corpus-n.perl has 9)
    ratio_from: Annotated[int, Field(ge=0)] = 20  # the ratio is asked only if the longer side has more pieces than this

    def reasons(self, src: NDArray[np.int64], tgt: NDArray[np.int64]) -> NDArray[np.int8]:
        """The first reason against each pair: its place in `REASONS`, or -1 for a pair that is kept.

        Args:
            src: [N] pieces of the source sides, without eos; 0 for a blank line.
            tgt: [N] likewise.
        """
        longer, shorter = np.maximum(src, tgt), np.minimum(src, tgt)
        uneven = (longer > self.ratio_from) & (longer > self.max_ratio * shorter)
        faults = (shorter == 0, longer > self.max_length, uneven)  # in the order of REASONS
        return np.select(faults, range(len(faults)), default=-1).astype(np.int8)


@dataclass
class CleaningReport:
    """How many pairs were read and kept, and how many were left out for each reason.

    Attributes:
        lines: pairs read.
        dropped: pairs left out, by reason.
        examples: the line numbers (from 1) of the first pairs left out, by reason.
        replaced: characters U+2581 in the text, which sentencepiece uses for itself and which became another one.
    """

    lines: int = 0
    dropped: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    examples: dict[Reason, list[int]] = field(default_factory=lambda: {reason: [] for reason in REASONS})
    replaced: int = 0

    @property
    def kept(self) -> int:
        """Pairs that went into the corpus."""
        return self.lines - sum(self.dropped.values())

    def add(self, reasons: NDArray[np.int8]) -> None:
        """Count a block of pairs [N], the next ones of the file (see `CleaningConfig.reasons`)."""
        for number, reason in enumerate(REASONS):
            found = np.flatnonzero(reasons == number)
            self.dropped[reason] += len(found)
            wanted = _EXAMPLES - len(self.examples[reason])
            self.examples[reason] += [self.lines + int(place) + 1 for place in found[:wanted]]
        self.lines += len(reasons)

    def summary(self) -> list[str]:
        """The report in sentences: one line, and one more for each reason that occurred."""
        lines = [f"{self.kept:,} of {self.lines:,} pairs kept"]
        for reason, count in self.dropped.items():
            if count:
                places = ", ".join(map(str, self.examples[reason])) + (", ..." if count > _EXAMPLES else "")
                lines.append(f"{count:,} left out because {_WORDS[reason]}: line {places}")
        if self.replaced:
            lines.append(f"{self.replaced:,} characters U+2581 replaced")
        return lines

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "lines": self.lines,
            "kept": self.kept,
            "dropped": dict(self.dropped),
            "examples": dict(self.examples),
            "replaced": self.replaced,
        }
