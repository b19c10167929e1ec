"""Auxiliary losses and metrics of layers, collected in a scope instead of returned.

A mixture of experts has a load-balancing loss, which must reach the objective through every decoder input and every
model in between. As a return value it would stand in the signature of every model method, decoder input and objective,
and one of them that dropped it would train an unbalanced router without notice. Instead `TranslationModel.forward`, the
only entry point of training, opens a scope; the layers below add their losses to it; `forward` adds their total to the
loss of the objective, however often the objective ran the model. Modules store nothing between two calls. Nothing is
collected outside a scope (translation), and the recomputation of activation checkpointing has a scope of its own, which
is discarded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn


class AuxLoss(NamedTuple):
    """Auxiliary loss and metrics of one call of one layer."""

    tokens: int  # real tokens of the call
    loss: Tensor  # scalar with gradient, a mean over these tokens, times its weight
    metrics: Mapping[str, Tensor]  # scalars without gradient, means over these tokens


@dataclass(frozen=True)
class AuxTotals:
    """Auxiliary loss summed over layers, and each metric averaged over layers."""

    loss: Tensor
    metrics: Mapping[str, Tensor]


class AuxLosses:
    """Auxiliary losses of one forward pass, by layer."""

    def __init__(self) -> None:
        self.by_layer: dict[nn.Module, list[AuxLoss]] = defaultdict(list)

    def total(self) -> AuxTotals | None:
        """Combine all layers; None if no layer added anything.

        A layer that was called several times (shared layers, several passes of an objective, single steps) counts
        once, with the mean over its calls weighted by their tokens.
        """
        if not self.by_layer:
            return None
        losses: list[Tensor] = []
        metrics: dict[str, list[Tensor]] = defaultdict(list)
        for calls in self.by_layer.values():
            weights = [call.tokens / sum(each.tokens for each in calls) for call in calls]
            losses.append(torch.stack([w * call.loss for w, call in zip(weights, calls, strict=True)]).sum())
            for name in calls[0].metrics:
                weighted = [w * call.metrics[name] for w, call in zip(weights, calls, strict=True)]
                metrics[name].append(torch.stack(weighted).sum())
        means = {name: torch.stack(values).mean() for name, values in metrics.items()}
        return AuxTotals(torch.stack(losses).sum(), means)


_current: ContextVar[AuxLosses | None] = ContextVar("aux_losses", default=None)


@contextmanager
def collect_aux_losses() -> Iterator[AuxLosses]:
    """Open a scope that collects the auxiliary losses of the layers called inside it."""
    aux_losses = AuxLosses()
    token = _current.set(aux_losses)
    try:
        yield aux_losses
    finally:
        _current.reset(token)


def current_aux_losses(layer: nn.Module) -> AuxLosses | None:
    """Return the innermost open scope if `layer` is being trained with gradient, else None."""
    return _current.get() if layer.training and torch.is_grad_enabled() else None
