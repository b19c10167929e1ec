"""A metric: the share of lines that differ from each reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mtkit.evaluation.metrics import Array, Metric


class WrongLines(Metric):
    """Lines that are equal to no reference, in percent; its statistics are 1 or 0, and 1 for the number of lines."""

    def statistics(self, systems: Sequence[Sequence[str]], refs: Sequence[Sequence[str]]) -> list[Array]:
        """[N, 2] for each system."""
        of_line = list(zip(*refs, strict=True))
        return [
            np.array([[hyp not in ref, 1] for hyp, ref in zip(hyps, of_line, strict=True)], dtype=np.float64)
            for hyps in systems
        ]

    def score(self, sums: list[float]) -> float:
        """Percent of wrong lines."""
        return 100 * sums[0] / sums[1]

    def signature(self, num_samples: int | None = None, seed: int = 0) -> str:
        """The name, and the samples."""
        return "lines" if num_samples is None else f"lines|bs:{num_samples}"
