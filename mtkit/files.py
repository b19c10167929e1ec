"""Durable writes, content hashes and the lock of a run folder.

A file or folder that we write is either there as a whole or not at all, also after a power cut: it is written under
another name beside its place, flushed to the disk (fsync), renamed, and the folder that holds the name is flushed too.
What the operating system refuses is raised as an error of ours that names the path.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import socket
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from mtkit.errors import BusyError, MissingInputError, ReadWriteError

_CHUNK = 1 << 20  # bytes read at a time


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what the operating system says while `path` is read into errors of ours.

    Raises:
        MissingInputError: there is no such file.
        ReadWriteError: it is there and cannot be read.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except FileNotFoundError as error:
        raise MissingInputError(f"{path}: no such file or folder") from error
    except OSError as error:
        raise ReadWriteError(f"{path}: cannot be read: {_reason(error)}") from error


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system says while `path` is written into errors of ours.

    Raises:
        ReadWriteError: no space, no permission, no such folder, or a failing disk.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except FileNotFoundError as error:
        raise ReadWriteError(f"{path}: cannot be written: the folder {path.parent} is not there") from error
    except OSError as error:
        raise ReadWriteError(f"{path}: cannot be written: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{reason}; free some space and give the same command again"
    return reason


def temporary_beside(path: Path) -> Path:
    """A name in the same folder, and thus on the same file system, that no other process uses."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


@contextlib.contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to; at the end of the block it becomes `path`, or vanishes after an error.

    An existing file is replaced; a symbolic link is followed; a device or pipe is written to directly.

    Raises:
        ReadWriteError: as `writing`.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file() and not path.is_dir():
        with writing(path):
            yield path
        return
    temporary = temporary_beside(path)
    try:
        with writing(path):
            yield temporary
            flush_to_disk(temporary)
            temporary.replace(path)
            flush_to_disk(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a whole file durably (see `write_atomically`)."""
    with write_atomically(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write a whole text file durably, in UTF-8 and with the line ends that are in `content`."""
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file durably: indented, keys in their order, characters unescaped, no NaN."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextlib.contextmanager
def build_folder(final: Path) -> Iterator[Path]:
    """Give an empty temporary folder to fill; at the end of the block it replaces `final`, or vanishes after an error.

    Raises:
        ReadWriteError: as `writing`.
    """
    final = Path(os.path.realpath(final))
    temporary = temporary_beside(final)
    try:
        with writing(final):
            final.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            yield temporary
        replace_folder(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def replace_folder(temporary: Path, final: Path) -> None:
    """Put a finished folder durably in the place of `final`, which may exist.

    A folder cannot be renamed over a full one, so the old one steps aside first, as `.NAME.old`. If the machine stops
    between these two steps, `recover_folder` brings it back.

    Raises:
        ReadWriteError: as `writing`.
    """
    aside = _aside(final)
    with writing(final):
        for folder, _, files in os.walk(temporary):
            for name in files:
                flush_to_disk(Path(folder, name))
            flush_to_disk(Path(folder))
        recover_folder(final)
        if final.exists():
            final.rename(aside)
        temporary.rename(final)
        flush_to_disk(final.parent)
        shutil.rmtree(aside, ignore_errors=True)


def recover_folder(final: Path) -> None:
    """Undo a `replace_folder` that was cut off: the old folder comes back, or goes if the new one is in place."""
    aside = _aside(final)
    with writing(final):
        if aside.exists() and not final.exists():
            aside.rename(final)
        elif aside.exists():
            shutil.rmtree(aside)


def _aside(final: Path) -> Path:
    return final.with_name(f".{final.name}.old")


def flush_to_disk(path: Path) -> None:
    """fsync a file, or a folder (that is, the names in it).

    Raises:
        OSError: the disk failed or is full.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # some network file systems have no fsync for folders, and then nothing can be done
        if not (error.errno == errno.EINVAL and path.is_dir()):
            raise
    finally:
        os.close(handle)


def hash_file(path: Path) -> str:
    """SHA-256 of the bytes of a file, in hexadecimal.

    Raises:
        MissingInputError, ReadWriteError: as `reading`.
    """
    digest = hashlib.sha256()
    with reading(path), path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class RunLock:
    """Holds a folder for this process: `with RunLock(folder): ...`.

    The operating system drops the lock when the process ends, in whatever way (flock), so there are no stale locks;
    processes that we fork do not keep it alive. The file `.lock` stays behind and means nothing by itself.

    Raises:
        BusyError: on entering, if another process (or another RunLock of this one) holds it; names host and pid.
        ReadWriteError: the folder cannot be written, or its file system has no locks.
    """

    _held: ClassVar[weakref.WeakSet[RunLock]] = weakref.WeakSet()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._handle: int | None = None

    def __enter__(self) -> Self:
        path = self.folder / ".lock"
        with writing(path):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(handle, 0)
                os.write(handle, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode())
            except BlockingIOError as error:
                holder = _holder(handle)
                os.close(handle)
                raise BusyError(f"{self.folder}: {holder} is working in this folder; wait for it or end it") from error
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
    def _forget_in_child(cls) -> None:
        # a lock lives until the last copy of its handle is closed: a forked worker must not outlive us with one
        for lock in list(cls._held):
            lock._close()


def is_held(folder: Path) -> bool:
    """Whether a process works in this folder (see RunLock); asks without waiting and changes nothing."""
    path = folder / ".lock"
    if not path.is_file():
        return False
    with reading(path):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


os.register_at_fork(after_in_child=RunLock._forget_in_child)


def _holder(handle: int) -> str:
    try:
        holder = json.loads(os.pread(handle, 4096, 0))
        return f"process {holder['pid']} on host {holder['host']}"
    except (ValueError, KeyError, TypeError):  # taken this moment, its name not yet written
        return "another process"
