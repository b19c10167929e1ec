"""Mixed precision as layers see it; on a device without numbers (meta) there is none."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def compute_dtype(x: Tensor) -> torch.dtype:
    """The type that products have here: that of autocast where it is on, or that of `x`."""
    device = x.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return x.dtype


def exactly(x: Tensor) -> AbstractContextManager[object]:
    """A block without autocast on the device of `x`."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()
