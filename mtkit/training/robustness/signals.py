"""SIGINT, SIGTERM and SIGUSR1 while training: finish the update, save, and end; a second Ctrl-C ends at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from mtkit.errors import Interrupted

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)  # SIGUSR1 is how clusters announce the end of a job


class Signals:
    """Remembers the first signal while the `with` block lasts; `received` is its number or None.

    Nothing happens to the update in progress: whoever trains looks at `received` between two updates. Inside
    `interruptible()` a signal raises `Interrupted` at once. A second SIGINT ends the process with 130 without any
    clean-up, which a disk written to by renames can take. Outside the main thread no handler is installed.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._may_raise = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._handle) for number in HANDLED}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            os._exit(128 + number)
        self.received = number if self.received is None else self.received
        if self._may_raise:
            self._may_raise = False
            raise Interrupted(number)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """A block that a signal leaves at once with `Interrupted`: one that changes nothing which is saved."""
        if self.received is not None:
            raise Interrupted(self.received)
        self._may_raise = True
        try:
            yield
        finally:
            self._may_raise = False
