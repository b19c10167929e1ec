"""`training.precision`, the number format of the forward pass, and `training.compile`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from mtkit.errors import RecipeError
from mtkit.hardware import has_bf16
from mtkit.models.interface import TranslationModel
from mtkit.training.key_types import PrecisionName


@dataclass(frozen=True)
class Precision:
    """Number format on a device.

    Attributes:
        name: float32, bf16 or fp16; never auto.
        device: type of the device, `cpu` or `cuda`.
        dtype: of matrix products; None for that of the weights.
    """

    name: PrecisionName
    device: str
    dtype: torch.dtype | None

    def autocast(self) -> AbstractContextManager[object]:
        """Return the context of a forward pass."""
        return nullcontext() if self.dtype is None else torch.autocast(self.device, self.dtype)


def resolve_precision(requested: PrecisionName, device: torch.device) -> Precision:
    """Return the format that `training.precision` selects on a device.

    `auto` selects bf16 only where the hardware has instructions for it, since emulated bf16 is slower than float32.

    Raises:
        RecipeError: fp16 without a GPU.
    """
    if requested == "fp16" and device.type != "cuda":
        raise RecipeError("training.precision: fp16 needs a GPU; choose bf16, float32 or auto")
    name: PrecisionName = requested if requested != "auto" else ("bf16" if has_bf16(device) else "float32")
    dtypes: dict[PrecisionName, torch.dtype | None] = {"float32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
    return Precision(name=name, device=device.type, dtype=dtypes[name])


def compile_model(model: TranslationModel) -> None:
    """Compile the layers of a model for training, on the device where it is; see CompiledCall.

    The code around the layers, validation and search stay in eager mode. The names of the weights do not change.

    Raises:
        RecipeError: torch cannot compile on this machine.
    """
    device = next(model.parameters()).device
    try:
        torch.compile(torch.neg)(torch.zeros(2, device=device))  # fails at once without a compiler
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        requirement = "a C++ compiler such as g++" if device.type == "cpu" else "triton and a C compiler"
        raise RecipeError(
            f"training.compile: torch cannot compile here ({reason}); install {requirement}, or set it to false"
        ) from error
    model.compile_layers()
