"""Schedules of the teacher forcing ratio: the probability that the decoder reads the true token.

Bengio et al. 2015, sec. 2.4, figure 1, https://arxiv.org/abs/1506.03099; i counts updates from 0.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from mtkit.config import Limits, config

Probability = Annotated[float, Limits(ge=0, le=1)]


@config
class LinearDecayConfig:
    """max(end, 1 - (1 - end) i / updates)."""

    kind: Literal["linear"] = "linear"
    # Updates until `end` is reached. Default: most of a Multi30k training.
    updates: Annotated[int, Limits(gt=0)] = 3000
    # Smallest ratio. Default: 0.75, since a decoder that reads mostly errors learns little.
    end: Probability = 0.75

    def ratio(self, i: int) -> float:
        """The teacher forcing ratio at update i."""
        return max(self.end, 1.0 - (1.0 - self.end) * i / self.updates)


@config
class ExponentialDecayConfig:
    """k^i."""

    kind: Literal["exponential"] = "exponential"
    # Base of the decay. Default: ratio 0.5 after 6,900 updates.
    k: Annotated[float, Limits(gt=0, lt=1)] = 0.9999

    def ratio(self, i: int) -> float:
        """The teacher forcing ratio at update i."""
        return math.exp(i * math.log(self.k))


@config
class InverseSigmoidDecayConfig:
    """k / (k + exp(i / k)): near 1 at first, 0.5 at i = k log k."""

    kind: Literal["inverse_sigmoid"] = "inverse_sigmoid"
    # Time constant in updates. Default: ratio 0.5 after 3,800 updates.
    k: Annotated[float, Limits(ge=1)] = 600.0

    def ratio(self, i: int) -> float:
        """The teacher forcing ratio at update i."""
        return 1.0 / (1.0 + math.exp(min(i / self.k - math.log(self.k), 700.0)))  # exp(710) overflows


TeacherForcingRatioConfig = LinearDecayConfig | ExponentialDecayConfig | InverseSigmoidDecayConfig
