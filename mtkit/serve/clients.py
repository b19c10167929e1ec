"""Clients: API keys, limits on how often a client may ask, and the error of a request that gets no translation."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtkit.errors import DataError
from mtkit.text.lines import read_lines

MAX_CLIENTS = 10_000  # whose limits are remembered
MIN_KEY = 8  # characters
FREE_GUESSES = 10  # wrong keys of an address that may come at once
GUESS_SECONDS = 1.0  # for each further one
MAX_GUESS_WAIT = 5.0


class RequestError(Exception):
    """A request that gets no translation; the message is one sentence.

    Attributes:
        status: of HTTP.
        retry_after: seconds after which the client may try again; None: the same request fails again.
    """

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


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
    """Names of clients, and tokens that they have left: one a request, refilled evenly.

    Attributes:
        needs_key: whether requests need a key.
    """

    def __init__(self, keys: Sequence[str] | None, max_requests: int | None) -> None:
        """Take keys (None: none is needed) and the number of requests of a client in a minute (None: any)."""
        self._max_requests, self.needs_key = max_requests, keys is not None
        self._keys = None if keys is None else {_hash(key): number for number, key in enumerate(keys)}
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted
        self._guesses: OrderedDict[str, float] = OrderedDict()  # until when the wrong keys of an address count
        self._proven: OrderedDict[tuple[str, int], None] = OrderedDict()  # addresses and keys that belong together

    async def admit(self, key: str | None, address: str) -> str:
        """The name of a client that may ask now: its key's number, or its address.

        Raises:
            RequestError: the key is missing or wrong (403), or the client asks too often or guesses keys (429).
        """
        if self._keys is None:
            name = address
        elif key is None:
            raise RequestError(403, "an API key is needed")
        else:
            number = self._keys.get(_hash(key))
            if number is None or (address, number) not in self._proven:
                await self._wait_for_guess(address)
                if number is None:
                    raise RequestError(403, "the API key is not known")
                self._guesses[address] = self._guesses.get(address, 0.0) - GUESS_SECONDS
                self._proven[address, number] = None
                _bound(self._proven)
            name = f"key {number}"
        if self._max_requests is None:
            return name
        now, rate = time.monotonic(), self._max_requests / 60
        tokens, since = self._left.pop(name, (float(self._max_requests), now))
        tokens = min(float(self._max_requests), tokens + (now - since) * rate)
        self._left[name] = (max(0.0, tokens - 1) if tokens >= 1 else tokens, now)
        _bound(self._left)
        if tokens < 1:
            seconds = int((1 - tokens) / rate) + 1
            message = f"more than {self._max_requests} requests in a minute; try again in {seconds} s"
            raise RequestError(429, message, retry_after=seconds)
        return name

    async def _wait_for_guess(self, address: str) -> None:
        """Wait until an address may try a key: some may come at once, and then one each GUESS_SECONDS.

        A key that is right waits as long, since otherwise the answer that comes at once would tell the right one. One
        that was right from this address before does not wait.
        """
        now = time.monotonic()
        until = max(self._guesses.pop(address, now), now)
        wait = until - now - (FREE_GUESSES - 1) * GUESS_SECONDS
        is_refused = wait > MAX_GUESS_WAIT
        self._guesses[address] = until if is_refused else until + GUESS_SECONDS
        _bound(self._guesses)
        if is_refused:
            raise RequestError(429, "too many keys that are not known; try again later", retry_after=int(wait) + 1)
        await asyncio.sleep(max(0.0, wait))


def _hash(key: str) -> bytes:
    """The hash of a key, whose comparison tells nothing about the key."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def _bound(entries: OrderedDict[Any, Any]) -> None:
    if len(entries) > MAX_CLIENTS:
        entries.popitem(last=False)
