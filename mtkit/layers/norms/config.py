"""Configurations of norms and residual connections, and the unions of kinds that a recipe can name."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtkit.config import Limits, config, construct

if TYPE_CHECKING:
    from torch import nn

    from mtkit.layers.norms.residual import Depth, Residual


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
    builds: ClassVar[str] = "layers.norms.norm:RMSNorm"
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
    builds: ClassVar[str] = "layers.norms.norm:BatchNorm"
    # Number that is added to the variance. Default: torch's.
    epsilon: Annotated[float, Limits(gt=0)] = 1e-5
    # Weight of a batch in the running statistics. Default: torch's.
    momentum: Annotated[float, Limits(gt=0, le=1)] = 0.1


TokenNormConfig = LayerNormConfig | RMSNormConfig


NormConfig = LayerNormConfig | RMSNormConfig | BatchNormConfig | NoNormConfig


class ResidualConfigBase:
    """Capabilities and defaults of a kind of residual connection; a kind overrides those that differ.

    Attributes:
        norm: the norm of a sublayer.
    """

    norm: NormConfig

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
    builds: ClassVar[str] = "layers.norms.residual:PreNorm"
    # Norm of each sublayer's input, and at the end of the stack. Default: layer, the most common; rms is cheaper and of
    # equal quality in our study.
    norm: NormConfig = field(default_factory=LayerNormConfig)


@config
class PostNormConfig(ResidualConfigBase):
    """Norm after the sum, as in the Transformer paper; needs learning-rate warm-up (see PostNorm)."""

    ends_with_norm: ClassVar[bool] = True

    kind: Literal["post_norm"] = "post_norm"
    builds: ClassVar[str] = "layers.norms.residual:PostNorm"
    # Norm of the sum of a sublayer's input and output. Default: layer, as in the paper; rms is cheaper and of equal
    # quality in our study.
    norm: NormConfig = field(default_factory=LayerNormConfig)


@config
class SandwichNormConfig(ResidualConfigBase):
    """Norms before and after each sublayer, and one at the end of the stack (see SandwichNorm)."""

    kind: Literal["sandwich"] = "sandwich"
    builds: ClassVar[str] = "layers.norms.residual:SandwichNorm"
    # Norm before and after each sublayer, and at the end of the stack. Default: layer, as in the paper; rms is cheaper
    # and of equal quality in our study.
    norm: NormConfig = field(default_factory=LayerNormConfig)


@config
class DeepNormConfig(ResidualConfigBase):
    """Post-norm for stacks of tens to hundreds of layers, with its own initialisation (see DeepNorm)."""

    ends_with_norm: ClassVar[bool] = True
    needs_sequential_sublayers: ClassVar[bool] = True

    kind: Literal["deepnorm"] = "deepnorm"
    builds: ClassVar[str] = "layers.norms.residual:DeepNorm"
    # Norm of the sum of a sublayer's input and output. Default: layer, as in the paper; rms is cheaper and of equal
    # quality in our study.
    norm: NormConfig = field(default_factory=LayerNormConfig)

    def initialise(self, layer: nn.Module, depth: Depth) -> None:
        """Re-initialise the weights on the value path: Xavier-normal with gain beta. The paper, fig. 2.

        Query and key projections keep their Xavier-uniform weights; in the paper they are Xavier-normal with gain 1.
        """
        from torch import nn

        from mtkit.layers.norms.residual import Sublayer, deepnorm_scales

        beta = deepnorm_scales(depth).beta
        for sublayer in layer.modules():
            for weight in sublayer.value_path_weights() if isinstance(sublayer, Sublayer) else ():
                nn.init.xavier_normal_(weight, gain=beta)


@config
class ResPostNormConfig(ResidualConfigBase):
    """Norm of each sublayer's output before the sum, and one at the end of the stack (see ResPostNorm)."""

    kind: Literal["res_post_norm"] = "res_post_norm"
    builds: ClassVar[str] = "layers.norms.residual:ResPostNorm"
    # Norm of each sublayer's output, and at the end of the stack. Default: layer, as in the paper.
    norm: NormConfig = field(default_factory=LayerNormConfig)


@config
class NoResidualConfig(ResidualConfigBase):
    """No residual connections, to see what they contribute (see NoResidual)."""

    kind: Literal["none"] = "none"
    builds: ClassVar[str] = "layers.norms.residual:NoResidual"
    # Norm of each sublayer's input, and at the end of the stack. Default: layer, as with pre-norm, so that the residual
    # connection is the only difference.
    norm: NormConfig = field(default_factory=LayerNormConfig)


ResidualConfig = (
    PreNormConfig | PostNormConfig | SandwichNormConfig | DeepNormConfig | ResPostNormConfig | NoResidualConfig
)
