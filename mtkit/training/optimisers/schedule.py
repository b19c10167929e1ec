"""How the learning rate changes: a factor between 0 and 1 of the optimiser's peak rate, for every update.

All but the plateau are pure functions of the update number (the first update is 1), so that resuming needs no state.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from pydantic import Field

Updates = Annotated[int, Field(ge=0)]


Share = Annotated[float, Field(ge=0, le=1)]


class Schedule(Protocol):
    """What training asks of a schedule."""

    def __call__(self, update: int) -> float:
        """The factor of the peak rate at this update (1 is the first)."""
        ...

    def observe(self, value: float) -> None:
        """Hear the value of a validation (lower is better)."""
        ...

    def state(self) -> dict[str, float]:
        """What a checkpoint must hold."""
        ...

    def load(self, state: Mapping[str, float]) -> None:
        """Go on from a checkpoint."""
        ...


class Pure:
    """A schedule that depends on the update number alone: nothing to observe, nothing to save."""

    def observe(self, value: float) -> None:
        """Validation changes nothing."""

    def state(self) -> dict[str, float]:
        """Nothing."""
        return {}

    def load(self, state: Mapping[str, float]) -> None:
        """Nothing."""


def warm(update: int, warmup: int) -> float:
    """The linear rise to 1 at update `warmup`; 1 from there on."""
    return min(1.0, update / warmup) if warmup else 1.0


@dataclass(frozen=True)
class InverseSqrt(Pure):
    """Linear rise, then fall with the square root of the update. See `InverseSqrtConfig`."""

    warmup: int
    scale: float

    def __call__(self, update: int) -> float:
        """min(u^-0.5, u · w^-1.5) times the scale."""
        warmup = float(max(self.warmup, 1))
        return self.scale * min(1.0 / math.sqrt(update), update / math.pow(warmup, 1.5))


@dataclass(frozen=True, kw_only=True)
class InverseSqrtConfig:
    """Vaswani et al. 2017, eq. 3. https://arxiv.org/abs/1706.03762.

    Without `d_model` the peak, at the end of the warm-up, is the optimiser's learning rate. With it the formula is the
    paper's own and the learning rate a factor of it (1.0 in the paper).
    """

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup: Updates = 1000
    d_model: Annotated[int, Field(gt=0)] | None = None

    def build(self, max_updates: int) -> InverseSqrt:
        """The schedule; its end does not matter."""
        scale = float(max(self.warmup, 1)) ** 0.5 if self.d_model is None else float(self.d_model) ** -0.5
        return InverseSqrt(self.warmup, scale)


@dataclass(frozen=True)
class Cosine(Pure):
    """Half a cosine wave. See `CosineConfig`."""

    warmup: int
    final: float
    max_updates: int

    def __call__(self, update: int) -> float:
        """Rise, then final + (1 - final)(1 + cos(pi·share)) / 2."""
        if update < self.warmup:
            return warm(update, self.warmup)
        share = min(1.0, (update - self.warmup) / max(1, self.max_updates - self.warmup))
        return self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * share))


@dataclass(frozen=True, kw_only=True)
class CosineConfig:
    """Cosine annealing without restarts (Loshchilov & Hutter 2017, eq. 5). https://arxiv.org/abs/1608.03983."""

    kind: Literal["cosine"] = "cosine"
    warmup: Updates = 400
    final: Share = 0.0  # share of the peak that is left at max_updates

    def build(self, max_updates: int) -> Cosine:
        """The schedule that ends at `max_updates`."""
        return Cosine(self.warmup, self.final, max_updates)


@dataclass(frozen=True)
class Linear(Pure):
    """A straight line down. See `LinearConfig`."""

    warmup: int
    final: float
    max_updates: int

    def __call__(self, update: int) -> float:
        """Rise, then 1 down to `final`."""
        if update < self.warmup:
            return warm(update, self.warmup)
        share = min(1.0, (update - self.warmup) / max(1, self.max_updates - self.warmup))
        return 1 - (1 - self.final) * share


@dataclass(frozen=True, kw_only=True)
class LinearConfig:
    """Linear rise and linear fall to `final` at max_updates: on a small corpus the best use of a known budget."""

    kind: Literal["linear"] = "linear"
    warmup: Updates = 400
    final: Share = 0.0  # share of the peak that is left at max_updates

    def build(self, max_updates: int) -> Linear:
        """The schedule that ends at `max_updates`."""
        return Linear(self.warmup, self.final, max_updates)


@dataclass(frozen=True)
class Constant(Pure):
    """One rate. See `ConstantConfig`."""

    warmup: int

    def __call__(self, update: int) -> float:
        """Rise, then 1."""
        return warm(update, self.warmup)


@dataclass(frozen=True, kw_only=True)
class ConstantConfig:
    """The peak rate throughout, after an optional warm-up."""

    kind: Literal["constant"] = "constant"
    warmup: Updates = 0

    def build(self, max_updates: int) -> Constant:
        """The schedule; its end does not matter."""
        return Constant(self.warmup)


@dataclass(frozen=True)
class WarmupStableDecay(Pure):
    """A rise, a plain, a fall. See `WarmupStableDecayConfig`."""

    warmup: int
    decay: int
    max_updates: int

    def __call__(self, update: int) -> float:
        """Rise, then 1, then 1 - sqrt(share of the decay that is over)."""
        begin = self.max_updates - self.decay
        if update <= begin:
            return warm(update, self.warmup)
        share = min(1.0, (update - begin) / self.decay)
        return warm(update, self.warmup) * (1 - math.sqrt(share))


@dataclass(frozen=True, kw_only=True)
class WarmupStableDecayConfig:
    """Warm-up, stable, decay (Hu et al. 2024, sec. 4.2), with the square-root fall of Hägele et al. 2024, eq. 2.

    https://arxiv.org/abs/2404.06395, https://arxiv.org/abs/2405.18392. Any checkpoint of the plain can be continued.
    """

    kind: Literal["warmup_stable_decay"] = "warmup_stable_decay"
    warmup: Updates = 400
    decay: Share = 0.2  # share of max_updates that the fall takes; a fifth suffices (Hägele et al. 2024, fig. 5)

    def build(self, max_updates: int) -> WarmupStableDecay:
        """The schedule that ends at `max_updates`."""
        return WarmupStableDecay(self.warmup, round(self.decay * max_updates), max_updates)


class Plateau:
    """Shrinks when validation stops improving. See `PlateauConfig`."""

    def __init__(self, config: PlateauConfig) -> None:
        self.config = config
        self.factor = 1.0
        self.best = sys.float_info.max  # JSON has no infinity
        self.waited = 0

    def __call__(self, update: int) -> float:
        """Rise, then what validation has left of the rate."""
        return warm(update, self.config.warmup) * self.factor

    def observe(self, value: float) -> None:
        """Shrink the factor after `patience` validations in a row that are no better than the best."""
        if value < self.best:
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited >= self.config.patience:
            self.factor = max(self.factor * self.config.shrink, self.config.final)
            self.waited = 0

    def state(self) -> dict[str, float]:
        """The factor, the best value and how long it stands."""
        return {"factor": self.factor, "waited": float(self.waited), "best": self.best}

    def load(self, state: Mapping[str, float]) -> None:
        """Go on from a checkpoint."""
        self.factor, self.waited, self.best = state["factor"], int(state["waited"]), state["best"]


@dataclass(frozen=True, kw_only=True)
class PlateauConfig:
    """The rate is multiplied by `shrink` whenever validation has not improved `patience` times in a row."""

    kind: Literal["plateau"] = "plateau"
    warmup: Updates = 400
    shrink: Annotated[float, Field(gt=0, lt=1)] = 0.5
    patience: Annotated[int, Field(gt=0)] = 2  # validations; one bad value is often noise
    final: Share = 0.01  # the factor never falls below this

    def build(self, max_updates: int) -> Plateau:
        """The schedule; its end does not matter."""
        return Plateau(self)


ScheduleConfig = Annotated[
    InverseSqrtConfig | CosineConfig | LinearConfig | ConstantConfig | WarmupStableDecayConfig | PlateauConfig,
    Field(discriminator="kind"),
]


ENDING_KINDS = frozenset({"cosine", "linear", "warmup_stable_decay"})  # these depend on max_updates
