"""Coverage penalty: a translation should have looked at the whole source."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.errors import UsageError

LEAST = 1e-6  # attention received below this counts as this, so that one unseen token does not make all others equal


@dataclass(frozen=True)
class Coverage:
    """beta · sum over source tokens of log(min(attention received, 1)).

    Wu et al. 2016, equation 14. https://arxiv.org/abs/1609.08144. It ranks ended hypotheses; which prefixes live on is
    decided without it, as there. The attention is the mean of the heads that the model gives.
    """

    beta: float

    def add(self, covered: Tensor | None, attention: Tensor | None) -> Tensor:
        """Attention received [rows, S] with that of one more step [rows, H, S]. UsageError if the model gives none."""
        if attention is None:
            raise UsageError("search.coverage_penalty: this model gives no attention over the source; set it to 0")
        mean = attention.float().mean(1)  # [rows, S]
        return mean if covered is None else covered + mean

    def penalty(self, covered: Tensor, real: Tensor) -> Tensor:
        """What is added to scores [rows], at most 0; `covered` and `real` are [rows, S]."""
        log = covered.clamp(min=LEAST, max=1.0).log()  # [rows, S]
        return self.beta * torch.where(real, log, 0.0).sum(1)
