"""Prefetching: items computed in a background thread before they are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from mtkit.hardware import require_thread_memory

T = TypeVar("T")


class _End:
    """Marks the end of an iterator."""


_END: Final = _End()


def prefetch(items: Generator[T, None, None], count: int) -> Generator[T, None, None]:
    """The same items in the same order, up to `count` of them computed in advance.

    An error of `items` is raised at the position of the failed item. Closing this iterator waits for the item that is
    being computed, closes `items`, and ends the thread.
    """
    require_thread_memory()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch") as pool:
        pending: deque[Future[T | _End]] = deque(pool.submit(next, items, _END) for _ in range(count))
        try:
            while not isinstance(item := pending.popleft().result(), _End):
                pending.append(pool.submit(next, items, _END))
                yield item
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            items.close()
