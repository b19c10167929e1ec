"""Work of the native library on several threads: its functions release Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache, partial
from itertools import pairwise
from threading import Event

MIN_ROWS = 8  # of a thread: fewer take less time than another thread needs to begin


def run_in_chunks(work: Callable[[int, int], object], count: int, threads: int) -> None:
    """Call `work(first, number)` for chunks of `count` rows, side by side.

    Returns or raises only after all chunks have ended: they write to memory of the caller.
    """
    chunks = min(threads, max(1, count // MIN_ROWS))
    bounds = pairwise(count * i // chunks for i in range(chunks + 1))
    run_together([partial(work, first, last - first) for first, last in bounds])


def run_together(tasks: Sequence[Callable[[], object]], stop: Callable[[], None] = lambda: None) -> None:
    """Run tasks side by side, the first one on the calling thread; returns or raises only after all have ended.

    Args:
        tasks: what to run.
        stop: asks the tasks to end soon; called after an error or an interruption on the calling thread.
    """
    futures: list[Future[None]] = []
    begin = Event()

    def run(task: Callable[[], object]) -> None:
        begin.wait()
        if len(futures) == len(tasks) - 1:  # less after an interruption: the caller has not waited
            task()

    try:
        try:
            for task in tasks[1:]:
                futures.append(_pool(os.getpid(), len(tasks)).submit(run, task))
        finally:
            begin.set()
        tasks[0]()
    except BaseException:
        stop()
        raise
    finally:
        _wait_for_all(futures, stop)
    for future in futures:
        future.result()


def _wait_for_all(futures: Sequence[Future[None]], stop: Callable[[], None]) -> None:
    """Wait for the end of all, also after an interruption, which is raised then."""
    interruption: BaseException | None = None
    while not all(future.done() for future in futures):
        try:
            wait(futures, timeout=0.2)  # a signal that another thread received is handled after it
        except BaseException as error:  # of a signal; the tasks still write to memory of the caller
            interruption = error
            stop()
    if interruption is not None:
        raise interruption


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of one process: a copy of a process has none."""
    return ThreadPoolExecutor(threads, thread_name_prefix="mtkit-native")
