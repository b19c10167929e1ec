"""Cache of translations, bounded in memory; the least recently used ones are dropped."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Any

ENTRY_BYTES = 300  # of an entry beside its key and its result

Key = tuple[tuple[Any, ...], str, str]  # model and options, text, beginning of the translation


class TranslationCache:
    """Results by model, options, text and beginning."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[Key, tuple[Any, int]] = OrderedDict()

    def get(self, key: Key) -> Any:
        """The result of a key; None if it is not there."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Key, result: dict[str, Any]) -> None:
        """Keep a result; errors are not kept."""
        if "error" in result or not self._max_bytes:
            return
        size = ENTRY_BYTES + _bytes_of(key) + _bytes_of(result)
        if (old := self._entries.pop(key, None)) is not None:
            self._bytes -= old[1]
        self._entries[key] = result, size
        self._bytes += size
        while self._bytes > self._max_bytes:
            _, (_, dropped) = self._entries.popitem(last=False)
            self._bytes -= dropped


def _bytes_of(value: Any) -> int:
    """The memory of a value with its parts; names of fields are shared."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return sys.getsizeof(value) + sum(map(_bytes_of, parts))
