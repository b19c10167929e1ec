"""Forward passes without gradient inside a forward pass with gradient."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def no_grad_uncached() -> Iterator[None]:
    """`torch.no_grad` with autocast's weight cache turned off.

    Autocast caches the weights that it has cast. Before torch 2.13, weights cast in a block without gradient were
    reused by the pass with gradient, which then computed none for them.
    """
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_autocast_cache_enabled(before)
