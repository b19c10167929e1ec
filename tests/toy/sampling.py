"""What of many inputs a run takes: all in a run of the whole, some of them in the default one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

is_whole = True  # set by tests/conftest.py


def sampled(count: int, least: int = 5) -> int:
    """`count` in a run of the whole, otherwise a tenth of it, but not below `least`."""
    return count if is_whole else min(count, max(least, count // 10))


def seeds(count: int, slow: int) -> list[object]:
    """Seeds 0, 1, ... of generated inputs: `count` or a sample of them, and up to `slow` with `-m slow`."""
    return [*range(sampled(count)), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(count, slow))]


def thinned(values: Iterable[object], step: int) -> list[object]:
    """The values as parameters, of which only each `step`-th is in the default run."""
    return [
        value if number % step == 0 else pytest.param(value, marks=pytest.mark.whole)
        for number, value in enumerate(values)
    ]
