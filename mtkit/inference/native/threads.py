"""Work of the native library on several threads: its functions release Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

MIN_ITEMS = 8  # of a thread: fewer take less time than another thread needs to begin


def run_in_parts(work: Callable[[int, int], object], count: int, unit: int = 1) -> None:
    """Call `work(first, number)` for parts of `count` items, side by side on torch's number of threads.

    Args:
        work: must not raise for want of the other parts.
        count: of all items.
        unit: items that must stay together, such as the hypotheses of a sentence.
    """
    units = count // unit
    parts = min(torch.get_num_threads(), max(1, count // max(MIN_ITEMS, unit)))
    if parts == 1:
        work(0, count)
        return
    bounds = [units * i // parts * unit for i in range(parts + 1)]
    futures = [
        _pool(os.getpid(), torch.get_num_threads()).submit(work, first, last - first)
        for first, last in zip(bounds[1:-1], bounds[2:], strict=True)
    ]
    work(0, bounds[1])
    for future in futures:
        future.result()


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of one process: a copy of a process has none."""
    return ThreadPoolExecutor(threads, thread_name_prefix="mtkit-native")
