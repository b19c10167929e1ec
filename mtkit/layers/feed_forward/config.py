"""Configurations of feed-forward sublayers, and the union of kinds that a recipe can name."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtkit.config import Limits, config, construct
from mtkit.layers.key_types import Activation, RoutingKind

if TYPE_CHECKING:
    from torch import nn


class FeedForwardConfigBase:
    """Capabilities of a kind of feed-forward sublayer; a kind overrides those that differ."""

    builds: ClassVar[str]
    has_data_dependent_steps: ClassVar[bool] = False

    def build(self, d_model: int, d_ff: int, dropout: float) -> nn.Module:
        """Build the sublayer; `dropout` is of inner activations."""
        return construct(self, d_model, d_ff, dropout)

    def of_layer(self, index: int) -> FeedForwardConfig:
        """Feed-forward sublayer of the layer with this index, from 0."""
        return self  # type: ignore[return-value]


@config
class DenseConfig(FeedForwardConfigBase):
    """One feed-forward layer for every token (see FeedForward)."""

    kind: Literal["dense"] = "dense"
    builds: ClassVar[str] = "layers.feed_forward.dense:FeedForward"
    # Activation between the two projections. Default: relu, as in the paper.
    activation: Activation = "relu"


@config
class GatedConfig(FeedForwardConfigBase):
    """One feed-forward layer with a gate for every token (see GatedFeedForward).

    It has three matrices instead of two: two thirds of the dense d_ff give the same number of parameters (the paper,
    sec. 3.1).
    """

    kind: Literal["gated"] = "gated"
    builds: ClassVar[str] = "layers.feed_forward.dense:GatedFeedForward"
    # Activation of the gate: relu is ReGLU, gelu GEGLU, silu SwiGLU. Default: silu, the choice of Llama and PaLM.
    activation: Activation = "silu"
    # Whether the projections have biases. Default: false, as in the paper.
    bias: bool = False


ExpertConfig = DenseConfig | GatedConfig


@config
class MixtureOfExpertsConfig(FeedForwardConfigBase):
    """Mixture of experts instead of one feed-forward layer (see MixtureOfExperts)."""

    kind: Literal["moe"] = "moe"
    builds: ClassVar[str] = "layers.feed_forward.mixture_of_experts:MixtureOfExperts"
    has_data_dependent_steps: ClassVar[bool] = True  # each expert receives as many tokens as the router assigns
    # Number of experts of a mixture. Default: few enough for the memory of one machine; the Switch paper went to 2,048.
    num_experts: Annotated[int, Limits(ge=2, le=10_000)] = 8
    # Rule that assigns tokens: switch takes the best expert with its probability as gate, top2 the best two with gates
    # that sum to 1. Default: switch, which costs as much as a dense layer.
    routing: RoutingKind = "switch"
    # Feed-forward layer of each expert, and of the layers without a mixture. Default: dense, as in the Switch paper.
    expert: ExpertConfig = field(default_factory=DenseConfig)
    # Distance of the layers that are mixtures; the others are one `expert`. Default: 2, the paper's.
    moe_every: Annotated[int, Limits(gt=0)] = 2
    # Largest number of tokens of an expert in training, as a multiple of an even share; the rest is dropped. Null drops
    # nothing. Default: the Switch paper's.
    capacity_factor: Annotated[float, Limits(gt=0)] | None = 1.25
    # Weight alpha of the auxiliary loss that keeps the load of the experts even. Default: the Switch paper's.
    balance_weight: Annotated[float, Limits(ge=0)] = 0.01
    # Weight of the squared log-normaliser of the router, which keeps its logits small. Default: the ST-MoE paper's.
    z_weight: Annotated[float, Limits(ge=0)] = 0.001
    # Largest relative noise of the router's input in training. Default: 0, so that training has no further randomness;
    # the Switch paper has 0.01.
    jitter: Annotated[float, Limits(ge=0, lt=1)] = 0.0

    def of_layer(self, index: int) -> FeedForwardConfig:
        """See FeedForwardConfigBase."""
        return self.expert if (index + 1) % self.moe_every else self


FeedForwardConfig = DenseConfig | GatedConfig | MixtureOfExpertsConfig
