"""Configurations of the layers that translation is made of: attention, positions, norms, residuals, feed-forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from mtkit.config import Limits, config, construct, load_class
from mtkit.layers.activations import Activation
from mtkit.layers.sizes import Heads

if TYPE_CHECKING:
    from torch import nn

    from mtkit.layers.attention import AttentionKernel, AttentionParts, TokenMixer
    from mtkit.layers.norms import Depth, Residual
    from mtkit.layers.positions import Position, StackPositions


@config
class AttentionConfigBase:
    """Capabilities of a kind of self-attention, which checks of recipes ask for; a kind overrides those that differ."""

    builds: ClassVar[str] = "layers.attention:SelfAttention"  # or a replacement of it
    kernel: ClassVar[str]  # between the projections of SelfAttention
    is_causal_capable: ClassVar[bool] = True  # can hide following tokens, as a decoder needs
    is_encoder_capable: ClassVar[bool] = True  # can attend to following tokens, as an encoder should
    attends_to_all: ClassVar[bool] = False  # every query attends to every key that a causal mask shows
    has_queries_and_keys: ClassVar[bool] = True  # which rotary encodings and score biases act on
    computes_scores: ClassVar[bool] = True  # one for each pair of tokens, to which score biases are added
    is_recommended: ClassVar[bool] = True  # messages suggest it as a remedy; false of kinds for comparison
    needs_equal_heads: ClassVar[bool] = False  # has as many key/value heads as query heads
    needs_positions: ClassVar[bool] = False  # cannot infer the order of tokens from its own pattern

    def build(self, parts: AttentionParts) -> TokenMixer:
        """Build the sublayer."""
        return construct(self, parts)

    def build_kernel(self, parts: AttentionParts) -> AttentionKernel[Any]:
        """Build the kernel of SelfAttention."""
        kernel: AttentionKernel[Any] = load_class(self.kernel)(self, parts)
        return kernel

    @property
    def length_limit(self) -> int | None:
        """Maximum sentence length in tokens, end of sentence included; None if unlimited."""
        return None


@config
class FullAttentionConfig(AttentionConfigBase):
    """Attention to all tokens; in a decoder, to all preceding ones (see SoftmaxAttention)."""

    kind: Literal["full"] = "full"
    kernel: ClassVar[str] = "layers.attention:SoftmaxAttention"

    attends_to_all: ClassVar[bool] = True


@config
class PositionConfigBase:
    """Capabilities of a position encoding, which checks of recipes ask for; a kind overrides those that differ."""

    encodes_order: ClassVar[bool] = True  # tells tokens apart by position
    acts_in_attention: ClassVar[bool] = False  # on queries, keys or scores, not (only) on the embeddings
    needs_scores: ClassVar[bool] = False  # adds a bias to the score of each pair of tokens
    is_recommended: ClassVar[bool] = True  # messages suggest it as a remedy; false of kinds for comparison
    needs_whole_sentence: ClassVar[bool] = False  # uses the sentence's length, unknown while a decoder writes it
    needs_even_head_dim: ClassVar[bool] = False  # rotates pairs of numbers
    is_shared: ClassVar[bool] = True  # one module for all layers, if it acts in attention
    builds: ClassVar[str]

    @property
    def length_limit(self) -> int | None:
        """Maximum sentence length in tokens, end of sentence included; None if unlimited."""
        return None

    def module(self, d_model: int, heads: Heads, *, causal: bool) -> Position:
        """Build the encoding for embeddings of width d_model, or for layers with these heads; `causal` in a decoder."""
        return construct(self, d_model, heads, causal=causal)

    def modules(self, d_model: int, heads: Heads, *, causal: bool, count: int) -> Sequence[Position]:
        """Build the encodings of several layers."""
        return [self.module(d_model, heads, causal=causal) for _ in range(count)]

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build the encoding of a stack: of its embeddings, or of its layers."""
        from mtkit.layers.positions import Position, StackPositions

        if not self.acts_in_attention:
            identities = [NoPositionConfig().module(d_model, heads, causal=causal) for _ in range(layers)]
            return StackPositions(self.module(d_model, heads, causal=causal), identities)
        count = 1 if self.is_shared else layers
        modules = self.modules(d_model, heads, causal=causal, count=count)
        return StackPositions(Position(), [*modules] * (layers // count))


@config
class SinusoidalConfig(PositionConfigBase):
    """Sinusoidal position encoding (see Sinusoidal)."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    builds: ClassVar[str] = "layers.positions:Sinusoidal"
    base: ClassVar[float] = 10_000.0  # of the wavelengths
    # Order of the numbers: interleaved alternates sines and cosines, concatenated has all sines first. Default:
    # interleaved, as in the paper; concatenated is that of Marian and fairseq, for models of theirs.
    layout: Literal["interleaved", "concatenated"] = "interleaved"
    # Number of the first position. Default: 0, as in the paper; fairseq begins with 2.
    offset: Annotated[int, Limits(ge=0, le=1000)] = 0
    # Whether the longest wavelength is exactly 2 pi 10000, instead of one step less. Default: false, as in the paper;
    # true is that of tensor2tensor and fairseq, for models of theirs.
    reaches_base: bool = False

    def divisor(self, d_model: int) -> int:
        """Divisor of the exponents 0, 2, 4 ... of the wavelengths."""
        return max(d_model - 2, 1) if self.reaches_base else d_model


@config
class LearnedConfig(PositionConfigBase):
    """Learned absolute positions (see Learned)."""

    kind: Literal["learned"] = "learned"
    builds: ClassVar[str] = "layers.positions:Learned"
    # Number of learned positions: tokens of the longest sentence, end of sentence included. Default: far above any
    # sentence; each costs d_model weights.
    max_length: Annotated[int, Limits(gt=0)] = 1024
    # Factor by which the positions are stretched: sentences may be that much longer, and read between two rows.
    # Default: 1, no interpolation, as long as no input is longer.
    interpolation_factor: Annotated[float, Limits(ge=1)] = 1.0

    @property
    def length_limit(self) -> int:
        """Maximum sentence length in tokens, end of sentence included."""
        return int((self.max_length - 1) * self.interpolation_factor) + 1


@config
class NoPositionConfig(PositionConfigBase):
    """No position encoding; only a causal mask carries order. Kazemnejad et al. 2023, "NoPE" (arXiv:2305.19466)."""

    kind: Literal["none"] = "none"
    builds: ClassVar[str] = "layers.positions:Position"

    encodes_order: ClassVar[bool] = False


@config
class NoScaling:
    """Unscaled positions."""

    kind: Literal["none"] = "none"

    def apply(self, base: float, head_dim: int) -> tuple[float, float]:
        """Return the base and the divisor of positions."""
        return base, 1.0


@config
class LinearScaling:
    """Positions divided by `factor`: longer input keeps to the angles seen in training.

    Chen et al. 2023, eq. 4. https://arxiv.org/abs/2306.15595
    """

    kind: Literal["linear"] = "linear"
    # Longest input over longest training input. Default: the smallest whole number that changes anything.
    factor: Annotated[float, Limits(ge=1)] = 2.0

    def apply(self, base: float, head_dim: int) -> tuple[float, float]:
        """Return the base and the divisor of positions."""
        return base, self.factor


@config
class NTKScaling:
    """A larger base: the slowest pair rotates `factor` times slower, the fastest as before ("NTK-aware").

    base' = base · factor^(K / (K - 2)); Peng et al. 2023, sec. 3.1. https://arxiv.org/abs/2309.00071
    """

    kind: Literal["ntk"] = "ntk"
    # Longest input over longest training input. Default: the smallest whole number that changes anything.
    factor: Annotated[float, Limits(ge=1)] = 2.0

    def apply(self, base: float, head_dim: int) -> tuple[float, float]:
        """Return the base and the divisor of positions; a single pair (K = 2) has frequency 1 for any base."""
        return base * self.factor ** (head_dim / max(1, head_dim - 2)), 1.0


RoPEScaling = NoScaling | LinearScaling | NTKScaling


@config
class RoPEConfig(PositionConfigBase):
    """Rotary position encoding (see RoPE); the head dimension must be even."""

    kind: Literal["rope"] = "rope"
    builds: ClassVar[str] = "layers.positions:RoPE"
    # Base of the wavelengths; a larger one suits longer sequences. Default: the paper's.
    base: Annotated[float, Limits(gt=1)] = 10_000.0
    # Whether pairs are (x_i, x_i+K/2), as in GPT-NeoX and Llama, instead of (x_2i, x_2i+1). Default: false, as in the
    # paper; the two differ in the order of weights alone.
    rotate_half: bool = False
    # Change of the angles for input that is longer than in training. Default: none, since most translations are not.
    scaling: RoPEScaling = field(default_factory=NoScaling)

    acts_in_attention: ClassVar[bool] = True
    needs_even_head_dim: ClassVar[bool] = True


class NormConfigBase:
    """Configuration of a norm."""

    builds: ClassVar[str]  # path of the class, see mtkit.config.load_class

    def build(self, d_model: int) -> nn.Module:
        """Build the norm of inputs [..., d_model]."""
        return construct(self, d_model)


@config
class LayerNormConfig(NormConfigBase):
    """Layer norm: mean 0 and variance 1 over the width, then a gain and a bias.

    Ba et al. 2016. https://arxiv.org/abs/1607.06450
    """

    kind: Literal["layer"] = "layer"
    # Number that is added to the variance. Default: torch's.
    epsilon: Annotated[float, Limits(gt=0)] = 1e-5

    def build(self, d_model: int) -> nn.LayerNorm:
        """Build the norm of inputs [..., d_model]."""
        from torch import nn

        return nn.LayerNorm(d_model, self.epsilon)


@config
class RMSNormConfig(NormConfigBase):
    """Root mean square norm (see RMSNorm)."""

    kind: Literal["rms"] = "rms"
    builds: ClassVar[str] = "layers.norms:RMSNorm"
    # Number that is added to the mean square. Default: that of T5 and Llama.
    epsilon: Annotated[float, Limits(gt=0)] = 1e-6


@config
class NoNormConfig(NormConfigBase):
    """No norm, to see what norms contribute."""

    kind: Literal["none"] = "none"

    def build(self, d_model: int) -> nn.Identity:
        """Build the identity."""
        from torch import nn

        return nn.Identity()


@config
class BatchNormConfig(NormConfigBase):
    """Batch norm over the real tokens of a micro-batch; fails on text (see BatchNorm)."""

    kind: Literal["batch"] = "batch"
    builds: ClassVar[str] = "layers.norms:BatchNorm"
    # Number that is added to the variance. Default: torch's.
    epsilon: Annotated[float, Limits(gt=0)] = 1e-5
    # Weight of a batch in the running statistics. Default: torch's.
    momentum: Annotated[float, Limits(gt=0, le=1)] = 0.1


TokenNormConfig = LayerNormConfig | RMSNormConfig
NormConfig = LayerNormConfig | RMSNormConfig | BatchNormConfig | NoNormConfig


class ResidualConfigBase:
    """Capabilities and defaults of a kind of residual connection; a kind overrides those that differ."""

    norm: NormConfig  # of a sublayer

    builds: ClassVar[str]
    ends_with_norm: ClassVar[bool] = False  # a sublayer normalises the sum that the next one reads
    needs_sequential_sublayers: ClassVar[bool] = False  # cannot be computed with attention and feed-forward in parallel

    def build(self, d_model: int, dropout: float, depth: Depth) -> Residual:
        """Build the residual connection of one sublayer."""
        return construct(self, d_model, dropout, depth)

    def final(self, d_model: int) -> nn.Module:
        """Build the norm at the end of a stack; none where the last sublayer ends with one."""
        return (NoNormConfig() if self.ends_with_norm else self.norm).build(d_model)

    def initialise(self, layer: nn.Module, depth: Depth) -> None:
        """Initialise a layer for this depth: nothing to do."""


@config
class PreNormConfig(ResidualConfigBase):
    """Norm before each sublayer and at the end of the stack; trains with large learning rates (see PreNorm)."""

    kind: Literal["pre_norm"] = "pre_norm"
    builds: ClassVar[str] = "layers.norms:PreNorm"
    # Norm of each sublayer's input, and at the end of the stack. Default: layer, the most common; rms is cheaper and of
    # equal quality in our study.
    norm: NormConfig = field(default_factory=LayerNormConfig)


@config
class PostNormConfig(ResidualConfigBase):
    """Norm after the sum, as in the Transformer paper; needs learning-rate warm-up (see PostNorm)."""

    ends_with_norm: ClassVar[bool] = True

    kind: Literal["post_norm"] = "post_norm"
    builds: ClassVar[str] = "layers.norms:PostNorm"
    # Norm of the sum of a sublayer's input and output. Default: layer, as in the paper; rms is cheaper and of equal
    # quality in our study.
    norm: NormConfig = field(default_factory=LayerNormConfig)


@config
class SandwichNormConfig(ResidualConfigBase):
    """Norms before and after each sublayer, and one at the end of the stack (see SandwichNorm)."""

    kind: Literal["sandwich"] = "sandwich"
    builds: ClassVar[str] = "layers.norms:SandwichNorm"
    # Norm before and after each sublayer, and at the end of the stack. Default: layer, as in the paper; rms is cheaper
    # and of equal quality in our study.
    norm: NormConfig = field(default_factory=LayerNormConfig)


@config
class DeepNormConfig(ResidualConfigBase):
    """Post-norm for stacks of tens to hundreds of layers, with its own initialisation (see DeepNorm)."""

    ends_with_norm: ClassVar[bool] = True
    needs_sequential_sublayers: ClassVar[bool] = True

    kind: Literal["deepnorm"] = "deepnorm"
    builds: ClassVar[str] = "layers.norms:DeepNorm"
    # Norm of the sum of a sublayer's input and output. Default: layer, as in the paper; rms is cheaper and of equal
    # quality in our study.
    norm: NormConfig = field(default_factory=LayerNormConfig)

    def initialise(self, layer: nn.Module, depth: Depth) -> None:
        """Re-initialise the weights on the value path: Xavier-normal with gain beta. The paper, fig. 2.

        Query and key projections keep their Xavier-uniform weights; in the paper they are Xavier-normal with gain 1.
        """
        from torch import nn

        from mtkit.layers.norms import Sublayer, deepnorm_scales

        beta = deepnorm_scales(depth).beta
        for sublayer in layer.modules():
            for weight in sublayer.value_path_weights() if isinstance(sublayer, Sublayer) else ():
                nn.init.xavier_normal_(weight, gain=beta)


@config
class ResPostNormConfig(ResidualConfigBase):
    """Norm of each sublayer's output before the sum, and one at the end of the stack (see ResPostNorm)."""

    kind: Literal["res_post_norm"] = "res_post_norm"
    builds: ClassVar[str] = "layers.norms:ResPostNorm"
    # Norm of each sublayer's output, and at the end of the stack. Default: layer, as in the paper.
    norm: NormConfig = field(default_factory=LayerNormConfig)


@config
class NoResidualConfig(ResidualConfigBase):
    """No residual connections, to see what they contribute (see NoResidual)."""

    kind: Literal["none"] = "none"
    builds: ClassVar[str] = "layers.norms:NoResidual"
    # Norm of each sublayer's input, and at the end of the stack. Default: layer, as with pre-norm, so that the residual
    # connection is the only difference.
    norm: NormConfig = field(default_factory=LayerNormConfig)


ResidualConfig = (
    PreNormConfig | PostNormConfig | SandwichNormConfig | DeepNormConfig | ResPostNormConfig | NoResidualConfig
)


class FeedForwardConfigBase:
    """Capabilities of a kind of feed-forward sublayer; a kind overrides those that differ."""

    builds: ClassVar[str]
    has_data_dependent_steps: ClassVar[bool] = False

    def build(self, d_model: int, d_ff: int, dropout: float) -> nn.Module:
        """Build the sublayer; `dropout` is of inner activations."""
        return construct(self, d_model, d_ff, dropout)

    def of_layer(self, index: int) -> FeedForwardConfigBase:
        """Feed-forward sublayer of the layer with this index, from 0."""
        return self


@config
class DenseConfig(FeedForwardConfigBase):
    """One feed-forward layer for every token (see FeedForward)."""

    kind: Literal["dense"] = "dense"
    builds: ClassVar[str] = "layers.feed_forward:FeedForward"
    # Activation between the two projections. Default: relu, as in the paper.
    activation: Activation = "relu"


@config
class GatedConfig(FeedForwardConfigBase):
    """One feed-forward layer with a gate for every token (see GatedFeedForward).

    It has three matrices instead of two: two thirds of the dense d_ff give the same number of parameters (the paper,
    sec. 3.1).
    """

    kind: Literal["gated"] = "gated"
    builds: ClassVar[str] = "layers.feed_forward:GatedFeedForward"
    # Activation of the gate: relu is ReGLU, gelu GEGLU, silu SwiGLU. Default: silu, the choice of Llama and PaLM.
    activation: Activation = "silu"
    # Whether the projections have biases. Default: false, as in the paper.
    bias: bool = False


ExpertConfig = DenseConfig | GatedConfig
