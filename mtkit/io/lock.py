"""Exclusive lock of a run folder, so that only one process at a time works in it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import weakref
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from mtkit.errors import BusyError
from mtkit.io.files import translate_read_errors, translate_write_errors


class RunLock:
    """Exclusive lock of a folder: `with RunLock(folder): ...`.

    The operating system releases the lock (flock) when the process ends, even if it is killed, so there are no stale
    locks. Forked processes do not keep it alive. The file `.lock` remains and has no meaning by itself.

    Raises:
        BusyError: on entering, if another process (or another RunLock of this process) has the lock; names host and
            pid.
        ReadWriteError: the folder cannot be written, or its file system does not support locks.
    """

    _held: ClassVar[weakref.WeakSet[RunLock]] = weakref.WeakSet()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._handle: int | None = None

    def __enter__(self) -> Self:
        path = self.folder / ".lock"
        with translate_write_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with translate_write_errors(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(handle, 0)
                os.write(handle, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode())
            except BlockingIOError as error:
                holder = _holder(handle)
                os.close(handle)
                raise BusyError(f"{self.folder}: locked by {holder}; wait for that process or end it") from error
            except OSError:
                os.close(handle)
                raise
        self._handle = handle
        RunLock._held.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        RunLock._held.discard(self)
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    @classmethod
    def _close_in_child(cls) -> None:
        # flock is released when the last copy of the handle is closed, so a forked worker must not keep one
        for lock in list(cls._held):
            lock._close()


def is_locked(folder: Path) -> bool:
    """Return whether a process has the lock of this folder (see RunLock), without waiting or changing anything."""
    path = folder / ".lock"
    if not path.is_file():
        return False
    with translate_read_errors(path):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


os.register_at_fork(after_in_child=RunLock._close_in_child)


def _holder(handle: int) -> str:
    try:
        holder = json.loads(os.pread(handle, 4096, 0))
        return f"process {holder['pid']} on host {holder['host']}"
    except (ValueError, KeyError, TypeError):  # locked just now, the pid is not written yet
        return "another process"
