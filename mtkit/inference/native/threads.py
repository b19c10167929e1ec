"""Work of the native library on several threads: its functions release Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache, partial
from itertools import pairwise

import torch

MIN_ITEMS = 8  # of a thread: fewer take less time than another thread needs to begin


def run_in_parts(work: Callable[[int, int], object], count: int, unit: int = 1) -> None:
    """Call `work(first, number)` for parts of `count` items, side by side on torch's number of threads.

    Returns or raises only after all parts have ended: they write to memory of the caller.

    Args:
        work: runs in the inference mode of the caller, which torch keeps for each thread.
        count: of all items.
        unit: items that must stay together, such as the hypotheses of a sentence.
    """
    units = count // unit
    parts = min(torch.get_num_threads(), max(1, count // max(MIN_ITEMS, unit)))
    if parts == 1:
        work(0, count)
        return
    bounds = pairwise(units * i // parts * unit for i in range(parts + 1))
    run_together([partial(work, first, last - first) for first, last in bounds])


def run_together(tasks: Sequence[Callable[[], object]]) -> None:
    """Run tasks side by side, the first one on the calling thread; returns or raises only after all have ended."""
    is_inference = torch.is_inference_mode_enabled()

    def run(task: Callable[[], object]) -> None:
        with torch.inference_mode(is_inference):
            task()

    futures: list[Future[None]] = []
    try:
        for task in tasks[1:]:
            futures.append(_pool(os.getpid(), torch.get_num_threads()).submit(run, task))
        tasks[0]()
    finally:
        wait(futures)
    for future in futures:
        future.result()


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of one process: a copy of a process has none."""
    return ThreadPoolExecutor(threads, thread_name_prefix="mtkit-native")
