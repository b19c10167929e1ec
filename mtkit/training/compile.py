"""The layers of a model as code that torch makes for this machine (`training.compile`)."""

from __future__ import annotations

import torch

from mtkit.errors import RecipeError
from mtkit.models.interface import TranslationModel


def compile_model(model: TranslationModel) -> None:
    """From now on train the layers of a model, which is where it will be trained, as compiled code; see `Compiled`.

    What surrounds the layers, validation and search stay as they are written, and the weights keep their names.

    Raises:
        RecipeError: torch cannot compile here.
    """
    device = next(model.parameters()).device
    try:
        torch.compile(torch.neg)(torch.zeros(2, device=device))
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        needed = "a C++ compiler such as g++" if device.type == "cpu" else "triton and a C compiler"
        raise RecipeError(
            f"training.compile: torch cannot compile here ({reason}); install {needed}, or set it to false"
        ) from error
    model.compile_layers()
