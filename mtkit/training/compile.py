"""`training.compile`: layers compiled by `torch.compile`."""

from __future__ import annotations

import torch

from mtkit.errors import RecipeError
from mtkit.models.interface import TranslationModel


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
