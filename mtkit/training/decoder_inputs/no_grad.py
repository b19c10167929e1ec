"""A computation beside the one that learns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def aside() -> Iterator[None]:
    """A block without gradient in the midst of a forward pass.

    Autocast remembers weights that it has cast; older versions of torch (not 2.13) would hand those cast here, without
    gradient, to the pass that learns. In this block nothing is remembered.
    """
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_autocast_cache_enabled(before)
