"""Exclusive locks, so that only one process at a time works in a run folder or writes an output."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from mtkit.errors import BusyError
from mtkit.io.files import (
    recover_interrupted_replace,
    remove_all_abandoned,
    translate_read_errors,
    translate_write_errors,
)
from mtkit.io.json_text import parse_json

_WAIT = 0.2  # seconds between two tries to lock a file


class FileLock:
    """Exclusive lock: `with FileLock(path, subject): ...`.

    The operating system releases the lock (flock) when the process ends, even if it is killed, so there are no stale
    locks. Forked processes do not keep it alive. The lock file has no meaning by itself.

    Raises:
        BusyError: on entering, if another process (or another lock of this process) has the lock; names host and pid.
        ReadWriteError: the lock file cannot be written, or its file system does not support locks.
    """

    _held: ClassVar[weakref.WeakSet[FileLock]] = weakref.WeakSet()

    def __init__(self, path: Path, subject: Path, *, remove: bool, make_folder: bool = False) -> None:
        """Take the lock file, which is removed in the end with `remove`, and the path that messages name."""
        self.path = path
        self.subject = subject
        self.make_folder, self.remove = make_folder, remove
        self._handle: int | None = None

    def __enter__(self) -> Self:
        if self.make_folder:
            with translate_write_errors(self.subject):
                self.path.parent.mkdir(parents=True, exist_ok=True)
        while self._handle is None:
            self._handle = self._try()
        FileLock._held.add(self)
        return self

    def _try(self) -> int | None:
        """Lock the file and return its handle; None if its last holder removed it meanwhile."""
        with translate_write_errors(self.path if os.path.lexists(self.path) else self.subject):
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                try:
                    is_open_file = os.path.samestat(os.lstat(self.path), os.fstat(handle))
                except FileNotFoundError:
                    is_open_file = False
                if not is_open_file:
                    os.close(handle)
                    return None
                os.ftruncate(handle, 0)
                os.write(handle, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode())
            except BlockingIOError as error:
                try:
                    content = parse_json(os.pread(handle, 4096, 0))
                    holder = f"process {content['pid']} on host {content['host']}"
                except (ValueError, KeyError, TypeError):  # locked just now, the pid is not written yet
                    holder = "another process"
                os.close(handle)
                raise BusyError(f"{self.subject}: locked by {holder}; wait for that process or end it") from error
            except OSError:
                os.close(handle)
                raise
        return handle

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.remove:
            self.path.unlink(missing_ok=True)  # before the lock is released: who opened the file meanwhile tries again
        self._close()

    def _close(self) -> None:
        FileLock._held.discard(self)
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    @classmethod
    def _close_in_child(cls) -> None:
        # flock is released when the last copy of the handle is closed, so a forked worker must not keep one
        for lock in list(cls._held):
            lock._close()


class RunLock(FileLock):
    """Lock of a run folder, which is created; its file `.lock` remains."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / ".lock", folder, make_folder=True, remove=False)


class OutputLock(FileLock):
    """Lock of a file or folder that is written outside a run folder; `.NAME.lock` beside it, while it is held.

    Args:
        path: the file or folder; a symbolic link is followed.
    """

    def __init__(self, path: Path, *, make_parents: bool = False) -> None:
        path = Path(os.path.realpath(path))
        super().__init__(path.with_name(f".{path.name}.lock"), path, make_folder=make_parents, remove=True)


def make_once(
    path: Path, is_made: Callable[[], bool], make: Callable[[], None], wait: Callable[[], None] = lambda: None
) -> None:
    """Make a file or folder under its lock, unless it is made; another process that makes it is waited for.

    Args:
        wait: called once if there is one.

    Raises:
        ReadWriteError: the lock cannot be written; otherwise as `make`.
    """
    is_waiting = False
    while not is_made():
        with suppress(BusyError), OutputLock(path, make_parents=True):
            if not is_made():  # another process may have made it before this one had the lock
                make()
            return
        if not is_waiting:
            wait()
        is_waiting = True
        time.sleep(_WAIT)


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


def clean_up_folder(folder: Path) -> None:
    """Undo or complete what killed processes were writing in a folder; requires the lock of its run folder.

    Raises:
        ReadWriteError: the folder cannot be changed.
    """
    for backup in list(folder.glob(".*.old")):
        recover_interrupted_replace(backup.with_name(backup.name[1:].removesuffix(".old")))
    with translate_write_errors(folder):
        remove_all_abandoned(folder)


os.register_at_fork(after_in_child=FileLock._close_in_child)
