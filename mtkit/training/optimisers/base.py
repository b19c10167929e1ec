"""Parts of all kinds of optimisers: parameter groups and learning rates.

Every parameter group stores its peak learning rate, which the schedule scales. With FSDP a parameter and its state are
sharded: an optimiser whose `step` is written here computes with `local_shard` of them (see lion.py), or sets
`needs_whole_matrices`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are not frozen, tied ones once, in the model's order."""
    return [p for p in model.parameters() if p.requires_grad]


def with_peak_lr(groups: list[dict[str, Any]], learning_rate: float) -> list[dict[str, Any]]:
    """Set `peak_lr` of the groups that have none."""
    return [{"peak_lr": learning_rate, **group} for group in groups]


def weight_decay_groups(model: nn.Module, weight_decay: float, learning_rate: float) -> list[dict[str, Any]]:
    """Return the trainable parameters in two groups: matrices, with weight decay, and vectors, without."""
    matrices = [p for p in trainable(model) if p.dim() >= 2]
    vectors = [p for p in trainable(model) if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return with_peak_lr([group for group in groups if group["params"]], learning_rate)


def set_lr(optimiser: torch.optim.Optimizer, factor: float) -> float:
    """Set every group's learning rate to `factor` times its peak; return the first group's, for the log."""
    for group in optimiser.param_groups:
        group["lr"] = group["peak_lr"] * factor
    return float(optimiser.param_groups[0]["lr"])
