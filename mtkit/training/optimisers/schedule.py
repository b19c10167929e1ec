"""Learning rate schedules: for each update, a factor between 0 and 1 of the optimiser's peak learning rate.

Update 1 is the first. All schedules except the plateau are functions of the update number, so that they have no state
to save: their configuration is the function.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from mtkit.config import Limits, config

NumUpdates = Annotated[int, Limits(ge=0)]
Fraction = Annotated[float, Limits(ge=0, le=1)]


class Schedule:
    """Learning rate schedule of a training; without a state unless a kind says otherwise."""

    def __init__(self, config: ScheduleConfigBase, max_updates: int) -> None:
        self.config, self._max_updates = config, max_updates

    def __call__(self, update: float) -> float:
        """Return the factor of the peak learning rate at an update (1 is the first)."""
        return self.config.factor(update, self._max_updates)

    def step_on_metric(self, value: float) -> None:
        """Take the value of a validation into account; lower is better."""

    def state(self) -> dict[str, float]:
        """Return the state that a checkpoint stores."""
        return {}

    def load(self, state: Mapping[str, float]) -> None:
        """Restore the state from a checkpoint."""


def warmup_factor(update: float, warmup: int) -> float:
    """Rise linearly to 1 at update `warmup` and stay there; without warm-up, 1."""
    return min(1.0, update / warmup) if warmup else 1.0


class ScheduleConfigBase:
    """Capabilities of a schedule's configuration; a kind overrides those that differ."""

    builds: ClassVar[str] = "training.optimisers.schedule:Schedule"  # called with the config and the updates
    ends_at_max_updates: ClassVar[bool] = False  # another training.max_updates changes the rate of earlier updates
    depends_on_validation: ClassVar[bool] = False  # the validations' values change the rate
    has_chosen_warmup: ClassVar[bool] = False  # mtkit chooses `warmup` from the corpus where a recipe omits it

    def factor(self, update: float, max_updates: int) -> float:
        """Return the factor of the peak learning rate at an update of a training of `max_updates`."""
        raise NotImplementedError


@config
class InverseSqrtConfig(ScheduleConfigBase):
    """Linear warm-up, then decay with the inverse square root of the update.

    min(u^-0.5, u · w^-1.5) times a scale, for update u and warm-up w. Vaswani et al. 2017, eq. 3.
    https://arxiv.org/abs/1706.03762

    Without `d_model` the scale is w^0.5, so that the rate peaks at the optimiser's learning rate. With `d_model` the
    formula is the paper's and the learning rate is a factor of it (1.0 in the paper).
    """

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    # Updates in which the rate rises to its peak. Default: a quarter of the default max_updates; Vaswani et al. have
    # 4,000 of 100,000.
    warmup: NumUpdates = 1000
    # Width of the model, for the paper's scale d_model^-0.5. Default: null scales to the optimiser's learning rate at
    # the peak.
    d_model: Annotated[int, Limits(gt=0)] | None = None

    def factor(self, update: float, max_updates: int) -> float:
        """Return the factor at an update; `max_updates` does not matter."""
        warmup = float(max(self.warmup, 1))
        scale: float = warmup**0.5 if self.d_model is None else float(self.d_model) ** -0.5
        return scale * min(1.0 / math.sqrt(update), update / math.pow(warmup, 1.5))


@config
class DecayKeys(ScheduleConfigBase):
    """Keys of the schedules that decay from the end of the warm-up to max_updates."""

    ends_at_max_updates: ClassVar[bool] = True
    has_chosen_warmup: ClassVar[bool] = True

    kind: str
    # Updates in which the rate rises to its peak. Default: a tenth of the default max_updates.
    warmup: NumUpdates = 400
    # Fraction of the peak learning rate that is left at max_updates. Default: 0, all the way down.
    final: Fraction = 0.0

    def factor(self, update: float, max_updates: int) -> float:
        """Return the factor at an update of a training of `max_updates`."""
        if update < self.warmup:
            return warmup_factor(update, self.warmup)
        return self.decayed(min(1.0, (update - self.warmup) / max(1, max_updates - self.warmup)))

    def decayed(self, progress: float) -> float:
        """Return the factor at a share of the decay, 0 to 1."""
        raise NotImplementedError


@config
class CosineConfig(DecayKeys):
    """Linear warm-up, then cosine annealing without restarts: final + (1 - final)(1 + cos(pi·progress)) / 2.

    Loshchilov & Hutter 2017, eq. 5. https://arxiv.org/abs/1608.03983
    """

    kind: Literal["cosine"] = "cosine"

    def decayed(self, progress: float) -> float:
        """See DecayKeys."""
        return self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * progress))


@config
class LinearConfig(DecayKeys):
    """Linear warm-up, then linear decay to `final` at max_updates: on a small corpus the best use of a known budget."""

    kind: Literal["linear"] = "linear"

    def decayed(self, progress: float) -> float:
        """See DecayKeys."""
        return 1 - (1 - self.final) * progress


@config
class ConstantConfig(ScheduleConfigBase):
    """Peak learning rate throughout, after an optional linear warm-up."""

    kind: Literal["constant"] = "constant"
    # Updates in which the rate rises to its peak. Default: 0; SGD at a constant rate, as in Sutskever et al. 2014, has
    # none.
    warmup: NumUpdates = 0

    def factor(self, update: float, max_updates: int) -> float:
        """Return the factor at an update; `max_updates` does not matter."""
        return warmup_factor(update, self.warmup)


@config
class WarmupStableDecayConfig(ScheduleConfigBase):
    """Linear warm-up, a stable phase at 1, then decay by 1 - sqrt(progress of the decay).

    Hu et al. 2024, sec. 4.2, https://arxiv.org/abs/2404.06395, with the square-root decay of Hägele et al. 2024, eq. 2,
    https://arxiv.org/abs/2405.18392. Any checkpoint of the stable phase can be continued.
    """

    ends_at_max_updates: ClassVar[bool] = True

    kind: Literal["warmup_stable_decay"] = "warmup_stable_decay"
    # Updates in which the rate rises to its peak. Default: a tenth of the default max_updates.
    warmup: NumUpdates = 400
    # Fraction of max_updates that the decay takes. Default: a fifth suffices (Hägele et al. 2024, fig. 5).
    decay: Fraction = 0.2

    def factor(self, update: float, max_updates: int) -> float:
        """Return the factor at an update of a training of `max_updates`."""
        decay_updates = round(self.decay * max_updates)
        start = max_updates - decay_updates
        if update <= start:
            return warmup_factor(update, self.warmup)
        progress = min(1.0, (update - start) / decay_updates)
        return warmup_factor(update, self.warmup) * (1 - math.sqrt(progress))


class Plateau(Schedule):
    """Schedule that reduces the rate when validation stops improving. See `PlateauConfig`."""

    config: PlateauConfig

    def __init__(self, config: PlateauConfig, max_updates: int) -> None:
        super().__init__(config, max_updates)
        self.factor = 1.0
        self.best = sys.float_info.max  # JSON has no infinity
        self.waited = 0  # validations without improvement

    def __call__(self, update: float) -> float:
        """Return the warm-up factor times the factor that validations have reduced."""
        return super().__call__(update) * self.factor

    def step_on_metric(self, value: float) -> None:
        """Reduce the factor after `patience` validations in a row without improvement."""
        if value < self.best:
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited >= self.config.patience:
            self.factor = max(self.factor * self.config.shrink, self.config.final)
            self.waited = 0

    def state(self) -> dict[str, float]:
        """Return the factor, the best value and the number of validations without improvement."""
        return {"factor": self.factor, "waited": float(self.waited), "best": self.best}

    def load(self, state: Mapping[str, float]) -> None:
        """Restore the state from a checkpoint."""
        self.factor, self.waited, self.best = state["factor"], int(state["waited"]), state["best"]


@config
class PlateauConfig(ScheduleConfigBase):
    """Linear warm-up, then multiplication by `shrink` whenever validation did not improve `patience` times in a row."""

    depends_on_validation: ClassVar[bool] = True

    kind: Literal["plateau"] = "plateau"
    builds: ClassVar[str] = "training.optimisers.schedule:Plateau"
    # Updates in which the rate rises to its peak. Default: a tenth of the default max_updates.
    warmup: NumUpdates = 400
    # Factor of each reduction of the rate. Default: half, as usual.
    shrink: Annotated[float, Limits(gt=0, lt=1)] = 0.5
    # Validations in a row without improvement that reduce the rate. Default: 2, since a single bad value is often
    # noise.
    patience: Annotated[int, Limits(gt=0)] = 2
    # Lower limit of the product of all reductions. Default: below a hundredth nothing is learned.
    final: Fraction = 0.01

    def factor(self, update: float, max_updates: int) -> float:
        """Return the factor of the warm-up at an update; `max_updates` does not matter."""
        return warmup_factor(update, self.warmup)


ScheduleConfig = (
    InverseSqrtConfig | CosineConfig | LinearConfig | ConstantConfig | WarmupStableDecayConfig | PlateauConfig
)
