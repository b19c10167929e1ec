"""Coverage penalty: lower scores for translations that leave source tokens unattended."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.errors import UsageError

MIN_COVERAGE = 1e-6  # lower bound before the logarithm, so that one unattended token does not decide the whole ranking


@dataclass(frozen=True)
class Coverage:
    """beta · sum over source tokens of log(min(attention received, 1)).

    Wu et al. 2016, equation 14. https://arxiv.org/abs/1609.08144. As in the paper, it ranks finished hypotheses; the
    selection of prefixes ignores it. Attention is averaged over the heads that the model returns.
    """

    beta: float

    def add(self, coverage: Tensor | None, attention: Tensor | None) -> Tensor:
        """Attention received so far, [rows, S], including one more step.

        Args:
            coverage: [rows, S], attention received before this step; None at the first step.
            attention: [rows, H, S], attention weights of this step.

        Raises:
            UsageError: the model returns no attention.
        """
        if attention is None:
            raise UsageError("search.coverage_penalty: this model gives no attention over the source; set it to 0")
        mean = attention.float().mean(1)  # [rows, S]
        return mean if coverage is None else coverage + mean

    def penalty(self, coverage: Tensor, real: Tensor) -> Tensor:
        """Summand of the scores [rows], at most 0; `coverage` and `real` are [rows, S]."""
        log = coverage.clamp(min=MIN_COVERAGE, max=1.0).log()  # [rows, S]
        return self.beta * torch.where(real, log, 0.0).sum(1)
