"""Fixtures for tests of the native library."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from mtkit.inference.native import threads
from mtkit.inference.native.library import native
from mtkit.inference.native.model import NativeTransformer
from tests.unit.inference.native.toy_searches import model_that_ends


@pytest.fixture
def library() -> None:
    """Skip a test on a machine without the library."""
    if native().functions is None:
        pytest.skip(f"no native library: {native().reason}")


@pytest.fixture
def two_threads(monkeypatch) -> Iterator[None]:
    """Work is split over two threads, however little there is."""
    before = torch.get_num_threads()
    monkeypatch.setattr(threads, "MIN_ITEMS", 1)
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=[torch.float32, torch.bfloat16, torch.int8], ids=str)
def model(request) -> NativeTransformer:
    """A model whose sentences end at various lengths, with weights of each type."""
    if not native().supports(request.param):
        pytest.skip(f"the processor has no instructions for {request.param}")
    return model_that_ends(request.param)
