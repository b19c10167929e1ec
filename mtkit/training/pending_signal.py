"""Signals during training: finish the update, save, and exit; a second Ctrl-C exits at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from mtkit.errors import Interrupted
from mtkit.signals import HANDLED, exit_at_once, install


class PendingSignal:
    """Records the first signal within the `with` block.

    The current update is not interrupted: the training loop checks `received` between two updates. Within
    `interruptible()` a signal raises `Interrupted` at once. A second SIGINT ends the process with exit code 130 and
    without clean-up, which is safe because files are written atomically. A signal that the block did not answer by an
    exception is passed to the previous handler at the end. Outside the main thread no handler is installed.

    Attributes:
        received: number of the signal, or None.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._may_raise = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.getsignal(number) for number in HANDLED}
            install(self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self.received is not None and kind is None:
            signal.raise_signal(self.received)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            exit_at_once(number)
        self.received = number if self.received is None else self.received
        if self._may_raise:
            self._may_raise = False
            raise Interrupted(number)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal raise `Interrupted` at once within the block, which must not change saved state."""
        if self.received is not None:
            raise Interrupted(self.received)
        self._may_raise = True
        try:
            yield
        finally:
            self._may_raise = False
