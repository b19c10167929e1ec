"""How training goes through a layer: keeping what the gradient needs or computing it once more, and by whose code.

A model applies its layers by the `passage` of the stack that holds them, and knows nothing of what that is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from mtkit.layers.feed_forward.aux_loss import recording

R = TypeVar("R")


class Passage(Protocol):
    """Calls a layer, or a method of one."""

    def __call__(self, layer: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """What `layer(*args, **kwargs)` gives."""
        ...


def direct(layer: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Call the layer; everything its gradient needs is kept until then."""
    return layer(*args, **kwargs)


def recomputed(layer: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Call the layer, keep only what it was given, and call it again when its gradient is computed.

    Chen et al. 2016, sec. 3. https://arxiv.org/abs/1604.06174 The second call draws the same random numbers, so that
    gradients are the same to the bit; it writes to a tape of its own, so that a layer's notes count once.
    """
    if not torch.is_grad_enabled():
        return layer(*args, **kwargs)
    given: R = checkpoint(layer, *args, use_reentrant=False, context_fn=_contexts, **kwargs)
    return given


class Compiled:
    """Calls a layer by code that torch makes of it, where it learns; elsewhere as it is written.

    The code is made when a layer is first called, for all shapes: lengths and numbers of sentences are unknown numbers
    in it. Layers that are made alike share it. Dropout then draws other numbers than without.

    Args:
        passage: calls the code.
        backend: torch's name of what makes it.
    """

    def __init__(self, passage: Passage, backend: str) -> None:
        self._passage = passage
        self._call = torch.compile(direct, dynamic=True, backend=backend)

    def __call__(self, layer: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """See Passage."""
        if not torch.is_grad_enabled():
            return layer(*args, **kwargs)
        y: R = self._passage(self._call, layer, *args, **kwargs)
        return y


def _contexts() -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    return nullcontext(), recording()


class Passing(nn.Module):
    """A module that applies layers one after the other, each by its `passage`."""

    passage: Passage = staticmethod(direct)


def recompute_layers(model: nn.Module) -> None:
    """From now on have the gradient of every layer of the model computed with `recomputed`."""
    for module in model.modules():
        if isinstance(module, Passing):
            module.passage = recomputed


def compile_layers(model: nn.Module, backend: str = "inductor") -> None:
    """From now on have every layer of the model `Compiled`; it is not yet, but when it is first called."""
    for module in model.modules():
        if isinstance(module, Passing):
            module.passage = Compiled(module.passage, backend)
