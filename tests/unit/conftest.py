"""What tests of many parts want."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def forgotten_memory_is_nan() -> Iterator[None]:
    """Tensors that are made without a content hold no numbers."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
