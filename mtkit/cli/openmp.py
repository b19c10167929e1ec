"""Threads that wait for each other on a busy machine."""

from __future__ import annotations

import os

SPIN_COUNT = 1000  # rounds of waiting before a thread sleeps: microseconds; GNU OpenMP's default is milliseconds


def limit_spinning() -> None:
    """Let the threads of torch sleep soon while they wait for each other; to be called before torch is imported.

    A thread that waits in a loop holds a core that the awaited one may need. With another process on one of two cores a
    small training was 1.9 times as fast with this setting, and as fast on free cores (docs/benchmarks.md). Settings of
    the environment have precedence. Only GNU OpenMP, which torch for Linux uses, reads the variable.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPIN_COUNT))
