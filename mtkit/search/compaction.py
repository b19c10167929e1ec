"""When finished sentences leave a batch, and who takes their places."""

from __future__ import annotations

import torch
from torch import Tensor

LEAVE = 32  # finished sentences leave when they are at least one in so many: leaving costs some time at every layer


def many(done: Tensor) -> bool:
    """Are the sentences that are done, of `done` [B], so many that they should leave?"""
    return int(done.sum()) * LEAVE >= done.numel()


def closed_up(done: Tensor) -> Tensor:
    """The sentences [N] that are not `done` [B], the last of them in the places of those that leave: few move."""
    stay = (~done).nonzero().squeeze(1)  # [N]
    order = torch.arange(stay.numel(), device=done.device)
    free = done[: stay.numel()].nonzero().squeeze(1)
    order[free] = stay[stay.numel() - free.numel() :]
    return order


def members(groups: Tensor, each: int) -> Tensor:
    """The rows [N·each] of the groups [N], which have `each` rows, one group after another."""
    return (groups.unsqueeze(1) * each + torch.arange(each, device=groups.device)).flatten()
