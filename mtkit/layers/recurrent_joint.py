"""What stands between the layers of a recurrent stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn

from mtkit.layers.norm import NormLayerConfig


class Joint(nn.Module):
    """What a layer gives the one above it: norm(y)."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """x, what the layer was given before dropout, and y [..., D], what it made of it -> [..., D]."""
        return self.norm(y)  # type: ignore[no-any-return]


class ResidualJoint(Joint):
    """norm(x + y). Residual connections between recurrent layers: Wu et al. 2016, sec. 3.1, arXiv:1609.08144."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """See Joint."""
        return self.norm(x + y)  # type: ignore[no-any-return]


def _norm(config: NormLayerConfig | None, width: int) -> nn.Module:
    return nn.Identity() if config is None else config.build(width)


@dataclass(frozen=True, kw_only=True)
class PlainJointConfig:
    """A layer is given what the one below it made, normalised if there is a norm (see Joint)."""

    kind: Literal["plain"] = "plain"
    norm_layer: NormLayerConfig | None = None  # of what each layer makes, the first one too

    def build(self, width: int, *, around: bool) -> Joint:
        """The joint of a layer of this width."""
        return Joint(_norm(self.norm_layer, width))


@dataclass(frozen=True, kw_only=True)
class ResidualJointConfig:
    """A layer adds to what it was given, in all layers above the first that are as wide as that (see ResidualJoint)."""

    kind: Literal["residual"] = "residual"
    norm_layer: NormLayerConfig | None = None  # of the sum

    def build(self, width: int, *, around: bool) -> Joint:
        """The joint of a layer of this width; `around`: it is above the first and was given that width too."""
        return (ResidualJoint if around else Joint)(_norm(self.norm_layer, width))


JointConfig = Annotated[PlainJointConfig | ResidualJointConfig, Field(discriminator="kind")]
