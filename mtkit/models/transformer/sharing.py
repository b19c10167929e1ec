"""Weight sharing between the layers of a stack."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from mtkit.config import Limits, config


@config
class NoSharingConfig:
    """No sharing: every layer has its own weights."""

    kind: Literal["none"] = "none"
    shares_layers: ClassVar[bool] = False

    def order(self, layers: int) -> tuple[int, ...]:
        """Index of the distinct layer at each depth of the stack."""
        return tuple(range(layers))


@config
class AllSharedConfig:
    """One layer, applied at every depth.

    Universal Transformer without halting (Dehghani et al. 2019, https://arxiv.org/abs/1807.03819); ALBERT (Lan et al.
    2020, https://arxiv.org/abs/1909.11942).
    """

    kind: Literal["all"] = "all"
    shares_layers: ClassVar[bool] = True

    def order(self, layers: int) -> tuple[int, ...]:
        """See NoSharingConfig."""
        return (0,) * layers


@config
class SequenceConfig:
    """1 1 2 2 3 3. Takase & Kiyono 2021, "Sequence", fig. 1. https://arxiv.org/abs/2104.06022"""

    kind: Literal["sequence"] = "sequence"
    shares_layers: ClassVar[bool] = True
    # Number of layers that have weights of their own.
    distinct: Annotated[int, Limits(gt=0)]

    def order(self, layers: int) -> tuple[int, ...]:
        """See NoSharingConfig.

        Raises:
            ValueError: the stack has fewer layers than distinct ones.
        """
        _check(self.distinct, layers)
        return tuple(i * self.distinct // layers for i in range(layers))


@config
class CycleConfig:
    """1 2 3 1 2 3. Takase & Kiyono 2021, "Cycle", fig. 1."""

    kind: Literal["cycle"] = "cycle"
    shares_layers: ClassVar[bool] = True
    # Number of layers that have weights of their own.
    distinct: Annotated[int, Limits(gt=0)]

    def order(self, layers: int) -> tuple[int, ...]:
        """See SequenceConfig."""
        _check(self.distinct, layers)
        return tuple(i % self.distinct for i in range(layers))


@config
class ReversedCycleConfig:
    """1 2 3 3 2 1: the last cycle is reversed. Takase & Kiyono 2021, "Cycle (rev)", their best."""

    kind: Literal["cycle_reversed"] = "cycle_reversed"
    shares_layers: ClassVar[bool] = True
    # Number of layers that have weights of their own.
    distinct: Annotated[int, Limits(gt=0)]

    def order(self, layers: int) -> tuple[int, ...]:
        """See SequenceConfig."""
        _check(self.distinct, layers)
        last_cycle = self.distinct * (-(-layers // self.distinct) - 1)  # depth at which it starts
        forwards = tuple(i % self.distinct for i in range(last_cycle or layers))
        backwards = tuple(self.distinct - 1 - i % self.distinct for i in range(last_cycle, layers))
        return forwards + backwards if last_cycle else forwards


@config
class SandwichSharingConfig:
    """1 2 2 2 3: all but the first and the last layer share. Reid et al. 2021, https://arxiv.org/abs/2101.00234"""

    kind: Literal["sandwich"] = "sandwich"
    shares_layers: ClassVar[bool] = True

    def order(self, layers: int) -> tuple[int, ...]:
        """See NoSharingConfig."""
        return tuple(0 if i == 0 else 1 if i < layers - 1 else min(2, layers - 1) for i in range(layers))


SharingConfig = (
    NoSharingConfig | AllSharedConfig | SequenceConfig | CycleConfig | ReversedCycleConfig | SandwichSharingConfig
)


def sharing_order(key: str, sharing: SharingConfig, layers: int) -> tuple[int, ...]:
    """Index of the distinct layer at each depth of a stack.

    Raises:
        ValueError: the number of layers does not fit; the message begins with `key`, which chose the sharing.
    """
    try:
        return sharing.order(layers)
    except ValueError as error:
        raise ValueError(f"{key}.{error}") from error


def _check(distinct: int, layers: int) -> None:
    if distinct > layers:
        raise ValueError(f"distinct: {distinct} layers are more than the {layers} of the stack; lower it or add layers")
