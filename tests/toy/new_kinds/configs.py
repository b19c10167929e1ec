"""Configurations of the new kinds; each is copied into the module of configurations of its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from mtkit.config import config
from mtkit.layers.config import AttentionConfigBase, PositionConfigBase
from mtkit.search.config import SearchMethod
from mtkit.training.optimisers.config import OptimiserConfigBase, PositiveFloat

if TYPE_CHECKING:
    from mtkit.search.hypothesis import SearchSettings
    from mtkit.search.interface import Search


@config
class ScaledALiBiConfig(PositionConfigBase):
    """Linear biases with a learned factor (see ScaledALiBi)."""

    kind: Literal["scaled_alibi"] = "scaled_alibi"
    builds: ClassVar[str] = "layers.variants.scaled_alibi:ScaledALiBi"
    # Initial value of the factor.
    # Default: 1, which is ALiBi.
    start: float = 1.0

    acts_in_attention: ClassVar[bool] = True
    needs_scores: ClassVar[bool] = True


@config
class UniformAttentionConfig(AttentionConfigBase):
    """Uniform attention (see UniformAttention)."""

    kind: Literal["uniform"] = "uniform"
    kernel: ClassVar[str] = "layers.variants.uniform:UniformAttention"

    is_encoder_capable: ClassVar[bool] = False
    computes_scores: ClassVar[bool] = False


@config
class SignSGDConfig(OptimiserConfigBase):
    """Signs of the gradient (see SignSGD)."""

    bytes_per_weight: ClassVar[int] = 0

    kind: Literal["sign_sgd"] = "sign_sgd"
    builds: ClassVar[str] = "training.optimisers.sign_sgd:SignSGD"
    # Learning rate at the schedule's peak.
    # Default: half of Adam's, because every update has full size.
    learning_rate: PositiveFloat = 1e-3


@config
class PlainGreedy(SearchMethod):
    """Greedy search under another name: the most probable token at every step."""

    kind: Literal["plain_greedy"] = "plain_greedy"

    seed: ClassVar[None] = None

    def num_hypotheses(self, beam_size: int) -> int:
        """See SearchMethod."""
        return 1

    def build(self, settings: SearchSettings) -> Search:
        """See SearchMethod."""
        from mtkit.search.single_path import SinglePathSearch

        return SinglePathSearch(settings)
