"""Functions of logits that never hold the logits of all positions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from mtkit.training.objectives.cross_entropy import CHUNK


def in_chunks(function: Callable[..., Tensor], *rows: Tensor) -> list[Tensor]:
    """Apply a function to CHUNK rows of the tensors at a time; what it computed is computed again for the gradient.

    Args:
        function: of one part of each tensor; it must draw nothing.
        rows: tensors with the same first dimension.
    """
    parts = zip(*(torch.split(each, CHUNK) for each in rows), strict=True)
    if not torch.is_grad_enabled():
        return [function(*part) for part in parts]
    return [checkpoint(function, *part, use_reentrant=False, preserve_rng_state=False) for part in parts]


def log_probs(output: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
    """Log-probabilities [n, V] of the next piece in states [n, D], float32 or better."""
    logits = output(hidden)
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
