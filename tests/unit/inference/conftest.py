"""Fixtures for tests of inference."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mtkit.native.library import VARIABLE, native


@pytest.fixture
def without_native_library(monkeypatch) -> Iterator[None]:
    """There is no native library, as on a machine for which none was compiled."""
    monkeypatch.setenv(VARIABLE, "0")
    native.cache_clear()
    yield
    native.cache_clear()  # the library is loaded again by the next test that uses it
