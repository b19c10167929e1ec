"""What tests of many parts want."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch


@pytest.fixture
def forgotten_memory_is_nan() -> Iterator[None]:
    """Tensors that are made without a content hold no numbers."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora: MTKIT_CORPORA, or ../shared/corpora."""
    folder = Path(os.environ.get("MTKIT_CORPORA", "../shared/corpora"))
    if not folder.is_dir():
        pytest.skip(f"needs real corpora: {folder} does not exist, set MTKIT_CORPORA")
    return folder
