"""Length penalties: from the log-probability of a hypothesis to its score.

Without one, short translations are favoured, since every further token lowers the log-probability. Lengths n count the
tokens and the end of sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from mtkit.config import Limits, config

if TYPE_CHECKING:
    from torch import Tensor

Numbers = Any  # a tensor, an array or a number


class LengthPenalty:
    """Base of the penalties, which rank finished hypotheses: score = log_prob / divisor(n) + summand(n)."""

    def divisor(self, length: Numbers) -> Numbers:
        """See the class; at least 1, and the larger the longer the hypothesis. Here 1."""
        return length * 0.0 + 1.0

    def summand(self, length: Numbers) -> Numbers:
        """See the class; here 0."""
        return length * 0.0

    def score(self, log_prob: Numbers, length: Numbers) -> Numbers:
        """Scores of finished hypotheses, `log_prob` and `length` of one shape; numbers need no torch."""
        return log_prob / self.divisor(length) + self.summand(length)

    def bound(self, log_prob: Tensor, min_length: Tensor, max_length: Tensor) -> Tensor:
        """Upper bound of the score of a hypothesis that now has `log_prob` <= 0 and ends between these lengths.

        Further tokens have log-probability 0 at best: the best length is the least or the greatest one.
        """
        best: Tensor = self.score(log_prob, min_length).maximum(self.score(log_prob, max_length))
        return best


@config
class Average(LengthPenalty):
    """Score = log_prob / n^alpha."""

    kind: Literal["average"] = "average"
    # Exponent of the length n that divides the log-probability; 0 has no effect. Default: 1, the mean log-probability
    # of a token.
    alpha: Annotated[float, Limits(ge=0, le=9)] = 1.0

    def divisor(self, length: Numbers) -> Numbers:
        """n^alpha."""
        return (length * 1.0) ** self.alpha


@config
class GNMT(LengthPenalty):
    """Score = log_prob / ((5 + n) / 6)^alpha. Wu et al. 2016, equation 14. https://arxiv.org/abs/1609.08144."""

    kind: Literal["gnmt"] = "gnmt"
    # Exponent of (5 + n) / 6 for the length n. Default: the Transformer paper's.
    alpha: Annotated[float, Limits(ge=0, le=9)] = 0.6

    def divisor(self, length: Numbers) -> Numbers:
        """((5 + n) / 6)^alpha."""
        return ((5.0 + length) / 6) ** self.alpha


@config
class WordReward(LengthPenalty):
    """Score = log_prob + reward · n. He et al. 2016. A negative reward favours short translations."""

    kind: Literal["word_reward"] = "word_reward"
    # Nats that are added for each token; a negative number favours short translations. Default: below the usual cost of
    # a token, so that translations still end.
    reward: float = 0.5

    def summand(self, length: Numbers) -> Numbers:
        """reward · n."""
        return self.reward * length


LengthPenaltyConfig = Average | GNMT | WordReward
