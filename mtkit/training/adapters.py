"""Adapters: fine-tuning of few weights of a model, whose others are frozen."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtkit.config import Limits, config

if TYPE_CHECKING:
    from torch import nn


class AdapterConfigBase:
    """Capabilities of an adapter's configuration."""

    needs_low_rank: ClassVar[bool] = False  # the model's projections get updates


PartName = Annotated[str, Limits(min_length=1)]


@config
class LoRAConfig(AdapterConfigBase):
    """Updates of low rank beside the frozen matrices of projections; merged into them in the finished model.

    Hu et al. 2022, https://arxiv.org/abs/2106.09685 .
    """

    needs_low_rank: ClassVar[bool] = True

    kind: Literal["lora"] = "lora"
    # Rank of the updates. Default: sec. 7.2: larger ones gain little.
    rank: Annotated[int, Limits(gt=0)] = 8
    # Factor of the updates, divided by the rank. Default: twice the rank, as most trainings have it.
    alpha: Annotated[float, Limits(gt=0)] = 16.0
    # Parts whose projections have updates, such as decoder or encoder.*.attention. Default: all but the output
    # projection; updates of all layers keep most of the gain.
    layers: Annotated[list[PartName], Limits(min_length=1)] = field(default_factory=lambda: ["*"])

    def attach(self, model: nn.Module) -> None:
        """Give the projections of a model updates, and freeze all other weights.

        Raises:
            RecipeError: a part is not in the model, or has no projection.
        """
        from torch import nn

        from mtkit.errors import RecipeError
        from mtkit.layers.projections import LowRankProjection, Projection
        from mtkit.training.weights import select_parameters

        chosen = select_parameters(model, self.layers, key="training.adapter.layers")
        names = [
            name
            for name, module in model.named_modules()
            if isinstance(module, Projection) and f"{name}.weight" in chosen and name != "output"
        ]
        if not names:
            raise RecipeError(
                f"training.adapter.layers: no projection is in {', '.join(self.layers)}; the output projection and "
                "embeddings have no updates. Name other parts, such as encoder and decoder"
            )
        model.requires_grad_(False)
        for name in names:
            parent, _, attribute = name.rpartition(".")
            outer = model.get_submodule(parent)
            projection = outer.get_submodule(attribute)
            if not isinstance(projection, nn.Linear):
                raise ValueError(f"{name} is no projection")
            setattr(outer, attribute, LowRankProjection(projection, self.rank, self.alpha / self.rank))


@config
class BiasAdapterConfig(AdapterConfigBase):
    """Training of the biases alone (Ben Zaken et al. 2022, https://arxiv.org/abs/2106.10199)."""

    kind: Literal["bias"] = "bias"

    def attach(self, model: nn.Module) -> None:
        """Freeze all weights but biases."""
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.endswith("bias"))


@config
class NormAdapterConfig(AdapterConfigBase):
    """Training of the gains and biases of norms alone (Zhao et al. 2023, https://arxiv.org/abs/2312.11420)."""

    kind: Literal["norm"] = "norm"

    def attach(self, model: nn.Module) -> None:
        """Freeze all weights but those of norms."""
        model.requires_grad_(False)
        for module in model.modules():
            by_name = dict(module.named_parameters(recurse=False))
            if "weight" in by_name and by_name["weight"].dim() == 1:  # a vector: the gain of a norm
                for parameter in by_name.values():
                    parameter.requires_grad_(True)


AdapterConfig = LoRAConfig | BiasAdapterConfig | NormAdapterConfig
