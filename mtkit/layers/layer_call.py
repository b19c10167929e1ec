"""Calls of layers: activation checkpointing and `torch.compile` of each layer, and auxiliary losses of layers.

A model calls its layers through `call_layer` of the stack that holds them. That attribute is `call` at first;
`checkpoint_layers` and `compile_layers` of a TranslationModel replace it, without a change to the model.

Auxiliary losses and metrics are collected in a scope instead of returned. A mixture of experts has a load-balancing
loss, which must reach the objective through every decoder input and every model in between. As a return value it would
stand in the signature of every model method, decoder input and objective, and one of them that dropped it would train
an unbalanced router without notice. Instead `TranslationModel.forward`, the only entry point of training, opens a
scope; the layers below add their losses to it; `forward` adds their total to the loss of the objective, however often
the objective ran the model. Modules store nothing between two calls. Nothing is collected outside a scope
(translation), and the recomputation of activation checkpointing has a scope of its own, which is discarded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

R = TypeVar("R")


class LayerCall(Protocol):
    """A way to call a layer or a method of a layer."""

    def __call__(self, layer: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """Return `layer(*args, **kwargs)`."""
        ...


def call(layer: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Call the layer and store its activations for the backward pass."""
    return layer(*args, **kwargs)


def checkpointed(layer: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Call the layer, store only its inputs, and recompute its activations in the backward pass.

    Activation checkpointing: Chen et al. 2016, sec. 3. https://arxiv.org/abs/1604.06174 The recomputation restores the
    random state, so that gradients are the same to the bit. It collects auxiliary losses in a scope of its own, which
    is discarded, so that they count once.
    """
    if not torch.is_grad_enabled():
        return layer(*args, **kwargs)
    output: R = checkpoint(
        layer, *args, use_reentrant=False, context_fn=lambda: (nullcontext(), collect_aux_losses()), **kwargs
    )
    return output


class CompiledCall:
    """Call a layer through `torch.compile` while gradients are enabled, and as it is otherwise.

    Compilation happens at the first call, with dynamic shapes: one code for all lengths and batch sizes. Layers of
    equal structure share it. Dropout samples different random numbers than in eager mode.

    Args:
        inner: calls the compiled code (`call` or `checkpointed`).
        backend: name of a torch.compile backend.
    """

    def __init__(self, inner: LayerCall, backend: str) -> None:
        self._inner = inner
        self._call = torch.compile(call, dynamic=True, backend=backend)

    def __call__(self, layer: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """See LayerCall."""
        if not torch.is_grad_enabled():
            return layer(*args, **kwargs)
        y: R = self._inner(self._call, layer, *args, **kwargs)
        return y


class LayerStack(nn.Module):
    """Base of modules that apply layers one after another, each through `call_layer`."""

    call_layer: LayerCall = staticmethod(call)


class AuxLoss(NamedTuple):
    """Auxiliary loss and metrics of one call of one layer."""

    tokens: int  # real tokens of the call
    loss: Tensor  # scalar with gradient, a mean over these tokens, times its weight
    metrics: Mapping[str, Tensor]  # scalars without gradient, means over these tokens


class AuxLosses:
    """Auxiliary losses of one forward pass, by layer."""

    def __init__(self) -> None:
        self.by_layer: dict[nn.Module, list[AuxLoss]] = defaultdict(list)

    def total(self) -> tuple[Tensor, Mapping[str, Tensor]] | None:
        """Loss summed over layers and each metric averaged over layers; None if no layer added anything.

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
        return torch.stack(losses).sum(), means


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
