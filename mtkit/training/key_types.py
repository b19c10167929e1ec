"""Types of keys of `training:` that its modules share with the configurations: choices and ranges."""

from __future__ import annotations

from typing import Annotated, Literal

from mtkit.config import Limits

Metric = Literal["nll", "bleu", "command"]
Goal = Literal["max", "min"]
OnNonFinite = Literal["stop", "skip"]
PrecisionName = Literal["auto", "float32", "bf16", "fp16"]
TrackerName = Literal["tensorboard", "wandb", "mlflow"]
RewardName = Literal["bleu", "chrf"]
SamplerName = Literal["argmax", "multinomial", "gumbel"]
Temperature = Annotated[float, Limits(gt=0)]
PositiveFloat = Annotated[float, Limits(gt=0)]
NonNegative = Annotated[float, Limits(ge=0)]
Beta = Annotated[float, Limits(ge=0, lt=1)]
