"""Which layers of a stack are one and the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field


@dataclass(frozen=True, kw_only=True)
class NoSharingConfig:
    """Every layer has weights of its own."""

    kind: Literal["none"] = "none"

    def order(self, layers: int) -> tuple[int, ...]:
        """For each place in the stack, which of the distinct layers stands there."""
        return tuple(range(layers))


@dataclass(frozen=True, kw_only=True)
class AllSharedConfig:
    """One layer, applied again and again.

    Universal Transformer without halting (Dehghani et al. 2019, https://arxiv.org/abs/1807.03819); ALBERT (Lan et al.
    2020, https://arxiv.org/abs/1909.11942).
    """

    kind: Literal["all"] = "all"

    def order(self, layers: int) -> tuple[int, ...]:
        """See NoSharingConfig."""
        return (0,) * layers


@dataclass(frozen=True, kw_only=True)
class SequenceConfig:
    """1 1 2 2 3 3. Takase & Kiyono 2021, "Sequence", fig. 1. https://arxiv.org/abs/2104.06022"""

    kind: Literal["sequence"] = "sequence"
    distinct: Annotated[int, Field(gt=0)]  # layers with weights of their own

    def order(self, layers: int) -> tuple[int, ...]:
        """See NoSharingConfig.

        Raises:
            ValueError: there are fewer layers than distinct ones.
        """
        _check(self.distinct, layers)
        return tuple(i * self.distinct // layers for i in range(layers))


@dataclass(frozen=True, kw_only=True)
class CycleConfig:
    """1 2 3 1 2 3. Takase & Kiyono 2021, "Cycle", fig. 1."""

    kind: Literal["cycle"] = "cycle"
    distinct: Annotated[int, Field(gt=0)]  # layers with weights of their own

    def order(self, layers: int) -> tuple[int, ...]:
        """See SequenceConfig."""
        _check(self.distinct, layers)
        return tuple(i % self.distinct for i in range(layers))


@dataclass(frozen=True, kw_only=True)
class ReversedCycleConfig:
    """1 2 3 3 2 1: the last round runs backwards. Takase & Kiyono 2021, "Cycle (rev)", the best of theirs."""

    kind: Literal["cycle_reversed"] = "cycle_reversed"
    distinct: Annotated[int, Field(gt=0)]  # layers with weights of their own

    def order(self, layers: int) -> tuple[int, ...]:
        """See SequenceConfig."""
        _check(self.distinct, layers)
        last_round = self.distinct * (-(-layers // self.distinct) - 1)  # its first place
        forwards = tuple(i % self.distinct for i in range(last_round or layers))
        backwards = tuple(self.distinct - 1 - i % self.distinct for i in range(last_round, layers))
        return forwards + backwards if last_round else forwards


@dataclass(frozen=True, kw_only=True)
class SandwichSharingConfig:
    """1 2 2 2 3: the first and the last layer are their own. Reid et al. 2021, https://arxiv.org/abs/2101.00234"""

    kind: Literal["sandwich"] = "sandwich"

    def order(self, layers: int) -> tuple[int, ...]:
        """See NoSharingConfig."""
        return tuple(0 if i == 0 else 1 if i < layers - 1 else min(2, layers - 1) for i in range(layers))


SharingConfig = Annotated[
    NoSharingConfig | AllSharedConfig | SequenceConfig | CycleConfig | ReversedCycleConfig | SandwichSharingConfig,
    Field(discriminator="kind"),
]


def sharing_order(key: str, sharing: SharingConfig, layers: int) -> tuple[int, ...]:
    """The order of a stack, for each place the number of its layer.

    Raises:
        ValueError: it cannot be, and which `key` says so.
    """
    try:
        return sharing.order(layers)
    except ValueError as error:
        raise ValueError(f"{key}.{error}") from error


def _check(distinct: int, layers: int) -> None:
    if distinct > layers:
        raise ValueError(f"distinct: {distinct} layers cannot be shared by {layers} places; lower it or add layers")
