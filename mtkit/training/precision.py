"""Which number format the forward pass computes in; weights and optimiser stay in float32 throughout."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch

from mtkit.errors import RecipeError
from mtkit.hardware import has_bf16

PrecisionName = Literal["auto", "float32", "bf16", "fp16"]


@dataclass(frozen=True)
class Precision:
    """A number format on a device.

    Attributes:
        name: float32, bf16 or fp16; what `auto` came to.
        device: the type of the device, `cpu` or `cuda`.
        dtype: the type of matrix products, None for that of the weights.
    """

    name: PrecisionName
    device: str
    dtype: torch.dtype | None

    def autocast(self) -> AbstractContextManager[object]:
        """The context in which a forward pass runs."""
        return nullcontext() if self.dtype is None else torch.autocast(self.device, self.dtype)


def resolve_precision(wanted: PrecisionName, device: torch.device) -> Precision:
    """Say what the recipe's `training.precision` means on this device.

    `auto` is bf16 only where there are instructions for it; emulated bf16 is slower than float32.

    Raises:
        RecipeError: fp16 without a GPU.
    """
    if wanted == "fp16" and device.type != "cuda":
        raise RecipeError("training.precision: fp16 needs a GPU; choose bf16, float32 or auto")
    name: PrecisionName = wanted if wanted != "auto" else ("bf16" if has_bf16(device) else "float32")
    dtypes: dict[PrecisionName, torch.dtype | None] = {"float32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
    return Precision(name=name, device=device.type, dtype=dtypes[name])
