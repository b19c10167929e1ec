"""Per-layer activation checkpointing and `torch.compile`.

A model calls its layers through `call_layer` of the stack that holds them. That attribute is `call` at first;
`checkpoint_layers` and `compile_layers` replace it, without a change to the model.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from mtkit.layers.feed_forward.aux_loss import collect_aux_losses

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
    output: R = checkpoint(layer, *args, use_reentrant=False, context_fn=_contexts, **kwargs)
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


def _contexts() -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    return nullcontext(), collect_aux_losses()


class LayerStack(nn.Module):
    """Base of modules that apply layers one after another, each through `call_layer`."""

    call_layer: LayerCall = staticmethod(call)


def checkpoint_layers(model: nn.Module) -> None:
    """Turn on activation checkpointing for every layer of the model."""
    for module in model.modules():
        if isinstance(module, LayerStack):
            module.call_layer = checkpointed


def compile_layers(model: nn.Module, backend: str = "inductor") -> None:
    """Turn on `torch.compile` for every layer of the model; each is compiled when it is first called."""
    for module in model.modules():
        if isinstance(module, LayerStack):
            module.call_layer = CompiledCall(module.call_layer, backend)
