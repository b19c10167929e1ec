"""Prefetching: items computed in a background thread before they are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from mtkit.hardware import require_thread_memory

T = TypeVar("T")


_END = object()  # marks the end of an iterator


def prefetch(items: Generator[T, None, None], count: int) -> Generator[T, None, None]:
    """The same items in the same order, up to `count` of them computed in advance.

    An error of `items` is raised at the position of the failed item. Closing this iterator waits for the item that is
    being computed, closes `items`, and ends the thread.
    """
    require_thread_memory()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch") as pool:
        pending: deque[Future[Any]] = deque(pool.submit(next, items, _END) for _ in range(count))
        try:
            while (item := pending.popleft().result()) is not _END:
                pending.append(pool.submit(next, items, _END))
                yield item
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            items.close()
