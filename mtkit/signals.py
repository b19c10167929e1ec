"""Signals that end the program: one sentence and exit code 128 + number, in every phase of every command.

- `exit_at_once` is installed before anything is imported, when there is nothing to save.
- `RaisedSignals` raises `SignalReceived` while a command runs, so that its `finally` blocks clean up. A training
  finishes and saves its update first (training/pending_signal.py).
- While torch is imported, the exception waits for the end of the import.
- A second Ctrl-C ends the program at once and without clean-up, also during a long save: files are written atomically.
- `finish_at_once` is installed when the work is done: the exit code no longer changes.
- Worker processes receive no signal (`blocked_in_workers`); their parent ends them.

A signal that the caller ignores (nohup, a background job) stays ignored. This module imports nothing of mtkit and
nothing slow: until `exit_at_once` is installed, Python's own handlers answer a signal.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType
    from typing import Any, NoReturn, Self, TypeVar

    T = TypeVar("T")

# Ctrl-C, a request to end, the end of a terminal or connection, and the end of a job, as clusters announce it
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
RETRY_SECONDS = 0.02


class SignalReceived(KeyboardInterrupt):
    """A signal, raised wherever the main thread is; libraries catch `Exception`, but not this one."""

    def __init__(self, number: int) -> None:
        super().__init__(describe(number))
        self.number = number


def describe(number: int) -> str:
    """The message for a signal."""
    return f"interrupted by {signal.Signals(number).name}"


def install(handler: Callable[[int, FrameType | None], object]) -> None:
    """Set the handler of all signals that the caller does not ignore."""
    for number in HANDLED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def exit_at_once(number: int, frame: FrameType | None = None) -> NoReturn:
    """Handler that prints the sentence and ends this process and its workers without clean-up."""
    kill_workers()
    os.write(2, f"mtkit: error: {describe(number)}\n".encode())
    os._exit(128 + number)


def finish_at_once(exit_code: int) -> None:
    """Let a signal end the process with this exit code: the work is done."""
    install(lambda number, frame: os._exit(exit_code))


class RaisedSignals:
    """Raises `SignalReceived` for the first signal within the `with` block; a Ctrl-C after it ends the process at once.

    Other signals after the first are ignored, since the program ends already: a launcher sends SIGTERM after a Ctrl-C.

    Attributes:
        active: the one whose block is running, or None.
        received: number of the signal, or None.
    """

    active: RaisedSignals | None = None

    def __init__(self) -> None:
        self.received: int | None = None
        self._delayed: int | None = None  # a signal that a timer will raise
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        RaisedSignals.active = self
        self._previous = {number: signal.getsignal(number) for number in (*HANDLED, signal.SIGALRM)}
        sys.unraisablehook = self._raise_again
        install(self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        RaisedSignals.active = None
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = sys.__unraisablehook__
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextmanager
    def prevail(self) -> Iterator[None]:
        """Replace an exception that leaves the block after a signal: libraries convert exceptions to their own."""
        try:
            yield
        except BaseException as error:
            if self.received is None or isinstance(error, SignalReceived):
                raise
            raise SignalReceived(self.received) from error

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is None and self._delayed is None:
            if _is_being_imported("torch"):  # its C++ code calls Python, and an exception there aborts the process
                self._raise_later(number)
                return
            self.received = number
            raise SignalReceived(number)
        if number == signal.SIGINT:
            exit_at_once(number)

    def _raise_again(self, hook: sys.UnraisableHookArgs) -> None:
        """Start a timer that raises a signal again: Python drops the exceptions of destructors and callbacks."""
        if not isinstance(hook.exc_value, SignalReceived):
            sys.__unraisablehook__(hook)
            return
        self.received = None
        self._raise_later(hook.exc_value.number)

    def _raise_later(self, number: int) -> None:
        def retry(_: int, frame: FrameType | None) -> None:
            self._delayed = None
            self._handle(number, frame)

        self._delayed = number
        signal.signal(signal.SIGALRM, retry)
        signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)


def _is_being_imported(package: str) -> bool:
    """Return whether the `import` of a package has begun and not yet ended."""
    module = sys.modules.get(package)
    if module is None or module.__spec__ is None:
        return False
    return bool(vars(module.__spec__).get("_initializing"))  # set by CPython's import system


@contextmanager
def blocked_in_workers() -> Iterator[None]:
    """Let processes and threads that are started in the block receive no signal; `kill_workers` ends them.

    A Ctrl-C at a terminal reaches all processes, and a worker would answer it with a traceback.

    Raises:
        SignalReceived: again, if a library has dropped it and the program went on: torch does while it imports numpy,
            which then lacks a part.
    """
    if RaisedSignals.active is not None and RaisedSignals.active.received is not None:
        raise SignalReceived(RaisedSignals.active.received)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def kill_workers() -> None:
    """Kill the worker processes of this process, which have nothing to save."""
    if "multiprocessing.process" in sys.modules:
        for process in sys.modules["multiprocessing.process"].active_children():
            process.kill()


def call_interruptibly(work: Callable[[], T]) -> T:
    """Call a long-running function of a C++ library, which handles no signals, in a thread that may be abandoned."""
    from concurrent.futures import Future
    from threading import Thread

    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    Thread(target=run, daemon=True).start()
    return result.result()
