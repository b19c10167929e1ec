"""A computation beside the one that learns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def aside() -> Iterator[None]:
    """A block without gradient in the midst of a forward pass.

    Autocast remembers weights that it has cast, so that a pass with gradient would be given those cast without; in
    this block it does not.
    """
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_autocast_cache_enabled(before)
