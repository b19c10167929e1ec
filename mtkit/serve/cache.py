"""Cache of translations, bounded in memory; the least recently used ones are dropped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

ENTRY_BYTES = 600  # of keys, containers and numbers
WORD_BYTES = 150  # of the alignment and the confidence of a word


class TranslationCache:
    """Results by model, options, text and beginning."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable) -> Any:
        """The result of a key; None if it is not there."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, text: str, result: dict[str, Any]) -> None:
        """Keep a result; errors are not kept."""
        if "error" in result or not self._max_bytes:
            return
        texts = [text, result.get("hyp", ""), *result.get("alternatives", ())]
        size = ENTRY_BYTES + sum(4 * len(each) for each in texts) + WORD_BYTES * len(result.get("alignment", ()))
        if (old := self._entries.pop(key, None)) is not None:
            self._bytes -= old[1]
        self._entries[key] = result, size
        self._bytes += size
        while self._bytes > self._max_bytes:
            _, (_, dropped) = self._entries.popitem(last=False)
            self._bytes -= dropped
