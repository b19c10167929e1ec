"""File operations of a process as a numbered sequence, and attacks on one of them: kill, signal, full disk, pause.

`install` replaces `open` and the functions of `os` that change files by versions that call `Attack.before` first. Files
opened for writing go through `TrackedFile`, so that each write of a buffer is an operation, too.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMES = ("open", "write", "rename", "replace", "unlink", "remove", "mkdir", "rmdir", "fsync", "truncate", "ftruncate",
         "link", "symlink", "chmod", "utime")  # fmt: skip
Operation = Callable[..., Any]


@dataclass
class Attack:
    """One attack; without one, operations are only listed.

    Attributes:
        kind: list, kill, torn (half of a write, then kill), signal, full_disk or pause.
        operation: number of the attacked operation, from 1.
        number: signal to send.
        room: bytes that the disk still takes.
        file: list: file that receives one line for each operation; pause: created by the attacked process, which goes
            on when it is deleted.
    """

    kind: str = "list"
    operation: int = 0
    number: int = 0
    room: int = 0
    file: str = ""
    count: int = 0

    def before(self, name: str, subject: object) -> None:
        """Count an operation and attack it if it is the one."""
        self.count += 1
        if self.kind == "list":
            self._list(name, subject)
        elif self.count == self.operation:
            self._strike()

    def _list(self, name: str, subject: object) -> None:
        descriptor = _open_descriptor(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        _write_descriptor(descriptor, (json.dumps([name, str(subject)]) + "\n").encode())
        os.close(descriptor)

    def _strike(self) -> None:
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.kind == "signal":
            os.kill(os.getpid(), self.number)
        elif self.kind == "pause":
            os.close(_open_descriptor(self.file, os.O_WRONLY | os.O_CREAT, 0o666))
            while os.path.exists(self.file):
                time.sleep(0.002)

    def write(self, real: Operation, content: Any) -> int:
        """Write `content` by `real`, all of it or what the attack permits."""
        size = memoryview(content).nbytes
        if self.kind == "torn" and self.count == self.operation:
            real(memoryview(content).cast("B")[: size // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind != "full_disk" or not size:
            return int(real(content))
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = int(real(memoryview(content).cast("B")[: self.room]))
        self.room -= written
        return written


_open_descriptor, _write_descriptor = os.open, os.write
_attack = Attack()


class TrackedFile(io.FileIO):
    """A raw file whose writes are operations."""

    def write(self, content: Any) -> int:
        """Write, unless the attack prevents it."""
        _attack.before("write", self.name)
        return _attack.write(super().write, content)


def _open(file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None,
          newline: Any = None, closefd: bool = True, opener: Any = None) -> Any:  # fmt: skip
    _attack.before(f"open {mode}", file)
    if not set(mode) & set("wax+"):
        return _real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    raw = TrackedFile(file, mode.replace("b", "").replace("t", ""), closefd, opener)
    if buffering == 0:
        return raw
    buffer = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
    if "b" in mode:
        return buffer
    return io.TextIOWrapper(buffer, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)


_real_open = io.open


def _tracked(name: str, real: Operation) -> Operation:
    def operation(*args: Any, **keys: Any) -> Any:
        _attack.before(name, args[0])
        if name == "write":
            return _attack.write(lambda content: real(args[0], content), args[1])
        return real(*args, **keys)

    return operation


def install(attack: Attack) -> None:
    """Track all file operations of this process from now on."""
    global _attack
    _attack = attack
    for name in NAMES:
        setattr(os, name, _tracked(name, getattr(os, name)))
    fcntl.flock = _tracked("flock", fcntl.flock)
    io.open = builtins.open = _open  # type: ignore[assignment]


def operations(listing: Path) -> list[tuple[str, str]]:
    """Name and subject of each operation in a file written by an attack of kind `list`."""
    return [tuple(json.loads(line)) for line in listing.read_text().rstrip("\n").split("\n")]
