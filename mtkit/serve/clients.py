"""Clients: API keys, and limits on how often a client may ask."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from mtkit.errors import DataError
from mtkit.serve.request_error import RequestError
from mtkit.text.lines import read_lines

MAX_CLIENTS = 10_000  # whose limits are remembered
MIN_KEY = 8  # characters


def read_keys(path: Path) -> list[str]:
    """The keys of a file, one a line; blank lines and those that begin with # are skipped.

    Raises:
        DataError: a key is short or has white space, or there is none.
        MissingInputError, ReadWriteError: as `read_lines`.
    """
    keys = []
    for number, line in enumerate(read_lines(path), start=1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if len(key) < MIN_KEY or len(key.split()) > 1 or not key.isascii():
            raise DataError(f"{path}:{number}: a key has at least {MIN_KEY} ASCII characters and no space")
        keys.append(key)
    if not keys:
        raise DataError(f"{path}: no keys; write one a line")
    return keys


class Clients:
    """Names of clients, and tokens that they have left: one a request, refilled evenly."""

    def __init__(self, keys: Sequence[str] | None, max_requests: int | None) -> None:
        """Take keys (None: none is needed) and the number of requests of a client in a minute (None: any)."""
        self._keys, self._max_requests = keys, max_requests
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    @property
    def needs_key(self) -> bool:
        """True if requests need a key."""
        return self._keys is not None

    def admit(self, key: str | None, address: str) -> str:
        """The name of a client that may ask now: its key's number, or its address.

        Raises:
            RequestError: the key is missing or wrong (403), or the client asks too often (429).
        """
        name = address
        if self._keys is not None:
            if key is None:
                raise RequestError(403, "an API key is needed")
            given = key.encode("utf-8", "replace")
            matches = [number for number, each in enumerate(self._keys) if hmac.compare_digest(each.encode(), given)]
            if not matches:
                raise RequestError(403, "the API key is not known")
            name = f"key {matches[0]}"
        self._spend(name)
        return name

    def _spend(self, name: str) -> None:
        if self._max_requests is None:
            return
        now, rate = time.monotonic(), self._max_requests / 60
        tokens, since = self._left.pop(name, (float(self._max_requests), now))
        tokens = min(float(self._max_requests), tokens + (now - since) * rate)
        self._left[name] = (max(0.0, tokens - 1) if tokens >= 1 else tokens, now)
        if len(self._left) > MAX_CLIENTS:
            self._left.popitem(last=False)
        if tokens < 1:
            seconds = int((1 - tokens) / rate) + 1
            message = f"more than {self._max_requests} requests in a minute; try again in {seconds} s"
            raise RequestError(429, message, retry_after=seconds)
