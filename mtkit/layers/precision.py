"""Autocast queries for layers. The meta device has no autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def is_autocast_on(x: Tensor) -> bool:
    """Return whether autocast is on for the device of `x`."""
    device = x.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def compute_dtype(x: Tensor) -> torch.dtype:
    """Return the type of matrix products with `x`: autocast's if it is on, else that of `x`."""
    return torch.get_autocast_dtype(x.device.type) if is_autocast_on(x) else x.dtype


def no_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Return a context without autocast on the device of `x`."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()
