"""Memory that a training frees and needs again a moment later."""

from __future__ import annotations

import ctypes
import os

# of glibc's mallopt(3)
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
NEVER = -1
LARGEST_KEPT = 1 << 30  # bytes; larger tensors go back to the system at once
LARGEST_KEPT_BY_OLD_GLIBC = 1 << 25  # before 2.35 it accepts no more


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for later tensors, instead of giving it back to the system.

    Memory from the system comes in empty pages, one interruption for each 4 KiB that is first written. By default glibc
    decides from the sizes that were freed before, so that a product of 10 MB took 9 or 33 ms, depending on what had
    happened earlier in the process (docs/benchmarks.md). Settings of the environment have precedence. Other C libraries
    have no such function, and nothing happens.
    """
    if "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "") or any(name.startswith("MALLOC_") for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # no such library (Windows), no such function (macOS, musl)
        return
    mallopt(M_TRIM_THRESHOLD, NEVER)
    mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT) or mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT_BY_OLD_GLIBC)
