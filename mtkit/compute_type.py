"""The numbers that a model translates with."""

from __future__ import annotations

import copy
from typing import Literal

import torch

from mtkit.errors import UsageError
from mtkit.hardware import has_bf16
from mtkit.models.model import TranslationModel

ComputeType = Literal["auto", "float32", "bf16", "int8"]


def resolve_compute_type(wanted: ComputeType, device: torch.device) -> torch.dtype:
    """The type of the weights; `auto` is bf16 only where there are instructions for it.

    Raises:
        UsageError: a type that there is not.
    """
    if wanted == "int8":
        raise UsageError("compute type int8 is not there; choose bf16, float32 or auto")
    if wanted == "auto":
        return torch.bfloat16 if has_bf16(device) else torch.float32
    return torch.bfloat16 if wanted == "bf16" else torch.float32


def prepare(model: TranslationModel, dtype: torch.dtype, device: torch.device) -> TranslationModel:
    """The model ready to translate: a copy, unless it is as it must be already."""
    same = all(p.dtype == dtype and p.device == device for p in model.parameters())
    if same and not model.training:
        return model
    model = copy.deepcopy(model).to(device).eval()
    for parameter in model.parameters():
        # buffers, such as the frequencies of positions, keep their precision
        parameter.data = parameter.data.to(dtype)
    return model
