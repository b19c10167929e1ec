"""Atomic, durable writes, content hashes, and operating system errors translated to `MtkitError`.

A written file or folder is either complete or absent, even after a power cut. It is written under a temporary name in
the same folder, flushed to disk (fsync) and renamed; then the folder that holds the name is flushed. Operating system
errors are raised as `MtkitError` with the path in the message.

The temporary name beside NAME is `.NAME.HOST.PID.tmp`, of process PID on HOST. It is abandoned if that process no
longer exists, which only the same host can tell.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import socket
import stat
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mtkit.errors import MissingInputError, ReadWriteError, UsageError
from mtkit.io.json_text import encode_json

_TEMPORARY = re.compile(r"\..+\.\d+\.tmp", re.DOTALL)
_NAME = re.compile(r"\.(?P<name>.+)\.(?P<host>[^.]+)\.(?P<pid>\d+)\.tmp", re.DOTALL)
MAX_QUOTED = 200  # characters of a path that is too long


@contextlib.contextmanager
def translate_read_errors(path: Path, *, allow_stream: bool = False) -> Iterator[None]:
    """Translate an `OSError` raised while `path` is read; a stream is refused before it can block or never end.

    Args:
        allow_stream: whether it may be a pipe or device.

    Raises:
        MissingInputError: the file does not exist (its path may be no path), is a pipe or device, or a folder where a
            file is expected.
        ReadWriteError: the file exists but cannot be read.
    """
    try:
        if not allow_stream and path.exists() and stat.S_IFMT(path.stat().st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            raise MissingInputError(f"{path}: a pipe or device, where a file is expected; write it to a file first")
        yield
    except BrokenPipeError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingInputError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise MissingInputError(f"{path}: a folder, where a file is expected") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise MissingInputError(f"{str(path)[:MAX_QUOTED]}...: no such file: the name is too long") from error
        raise ReadWriteError(f"{path}: cannot be read: {_reason(error)}") from error


def read_file(path: Path) -> bytes:
    """The bytes of a file. Errors as `translate_read_errors`."""
    with translate_read_errors(path):
        return path.read_bytes()


def require_regular_file(path: Path) -> None:
    """Raise the errors of `translate_read_errors` before a path is read."""
    with translate_read_errors(path):
        if stat.S_ISDIR(path.stat().st_mode):
            raise IsADirectoryError


@contextlib.contextmanager
def translate_write_errors(path: Path) -> Iterator[None]:
    """Translate an `OSError` raised while `path` is written.

    Raises:
        ReadWriteError: no space, no permission, no such folder, or a failing disk.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except FileNotFoundError as error:
        reason = "does not accept new files" if path.parent.is_dir() else "does not exist"
        raise ReadWriteError(f"{path}: cannot be written: the folder {path.parent} {reason}") from error
    except OSError as error:
        raise ReadWriteError(f"{path}: cannot be written: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{reason}; free some space and run the same command again"
    return reason


@contextlib.contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """A temporary path to write to; at the end of the block it is renamed to `path`, or removed after an error.

    An existing file is replaced and its permissions are kept. A symbolic link is followed. A device or pipe is written
    to directly.

    Raises:
        ReadWriteError: as `translate_write_errors`.
    """
    if path.exists() and not path.is_file() and not path.is_dir():  # not resolved: /dev/fd/N of a pipe has no path
        with translate_write_errors(path):
            yield path
        return
    path = Path(os.path.realpath(path))
    temporary = temporary_beside(path)
    try:
        with translate_write_errors(path):
            remove_abandoned(path)
            create_temp_file(temporary, path)
            yield temporary
            replace_file(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def refuse_special_file(path: Path) -> None:
    """Refuse to write to anything but a regular file with one name, which `path` need not be yet.

    Raises:
        UsageError: it is a link, a folder, a device or a pipe.
    """
    try:
        status = path.lstat()
    except OSError:  # missing, or opening it will tell
        return
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        return
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a pipe", stat.S_IFREG: "a link"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
    raise UsageError(f"{path}: is {kind}, but unfinished output is written there; remove it, or name another output")


def create_temp_file(temporary: Path, path: Path) -> None:
    """Create the empty file that will replace `path`; if `path` exists, only the owner can read the new file meanwhile.

    Raises:
        OSError: the file cannot be created.
    """
    temporary.touch(mode=0o600 if path.exists() else 0o666)


def replace_file(temporary: Path, path: Path) -> None:
    """Flush a finished file and rename it to `path`, with the permissions of an existing file there.

    Raises:
        OSError: the disk failed or is full.
    """
    if path.exists():
        shutil.copymode(path, temporary)
    flush_to_disk(temporary)
    temporary.replace(path)
    flush_to_disk(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically and durably (see `write_atomically`)."""
    with write_atomically(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write a text file atomically and durably, in UTF-8, without translating the line ends of `content`."""
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically and durably: indented, keys in insertion order, non-ASCII unescaped, no NaN."""
    write_bytes(path, encode_json(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"))


@contextlib.contextmanager
def atomic_folder(final: Path) -> Iterator[Path]:
    """An empty temporary folder; at the end of the block it replaces `final`, or is removed after an error.

    Raises:
        ReadWriteError: as `translate_write_errors`.
    """
    final = Path(os.path.realpath(final))
    with temporary_folder(final) as temporary:
        yield temporary
        replace_folder(temporary, final)


@contextlib.contextmanager
def temporary_folder(final: Path) -> Iterator[Path]:
    """An empty folder beside a file or folder, which is removed in the end; those of killed processes are removed too.

    Raises:
        ReadWriteError: as `translate_write_errors`.
    """
    temporary = temporary_beside(final)
    try:
        with translate_write_errors(final):
            final.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(final)
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def replace_folder(temporary: Path, final: Path) -> None:
    """Flush a finished folder and rename it to `final`, which may exist.

    A folder cannot be renamed over a non-empty one, so the old folder is first renamed to `.NAME.old`. If the machine
    stops between the two renames, `recover_interrupted_replace` restores it. The permissions of the old folder are
    kept.

    Raises:
        ReadWriteError: as `translate_write_errors`, or `final` is a file.
    """
    backup = _backup_path(final)
    with translate_write_errors(final):
        if final.exists() and not final.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "a file has this name; move it away")
        for folder, _, files in os.walk(temporary):
            for name in files:
                flush_to_disk(Path(folder, name))
            flush_to_disk(Path(folder))
        recover_interrupted_replace(final)
        if final.exists():
            shutil.copymode(final, temporary)
            final.rename(backup)
        temporary.rename(final)
        flush_to_disk(final.parent)
        shutil.rmtree(backup, ignore_errors=True)


def recover_interrupted_replace(final: Path) -> None:
    """Clean up after an interrupted `replace_folder`: restore the old folder, or remove it if the new one is in place.

    Raises:
        ReadWriteError: as `translate_write_errors`.
    """
    backup = _backup_path(final)
    with translate_write_errors(final):
        if backup.exists() and not final.exists():
            backup.rename(final)
        elif backup.exists():
            shutil.rmtree(backup)


def _backup_path(final: Path) -> Path:
    return final.with_name(f".{final.name}.old")


def flush_to_disk(path: Path) -> None:
    """Call fsync on a file, or on a folder (the names in it).

    Raises:
        OSError: the disk failed or is full.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # some network file systems do not support fsync of a folder
        if not (error.errno == errno.EINVAL and path.is_dir()):
            raise
    finally:
        os.close(handle)


def require_utf8_name(folder: Path) -> None:
    """Refuse a folder of weights whose path is not UTF-8: safetensors cannot open files in it.

    Raises:
        UsageError: the path has a byte that is not UTF-8.
    """
    if any(0xD800 <= ord(char) <= 0xDFFF for char in str(folder)):
        raise UsageError(f"{folder}: the name of this folder is not UTF-8; rename it, or choose another")


def hash_file(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        MissingInputError, ReadWriteError: as `translate_read_errors`.
    """
    with translate_read_errors(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_files(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file in a folder, by name.

    Raises:
        MissingInputError, ReadWriteError: as `translate_read_errors`.
    """
    with translate_read_errors(folder):
        return {path.name: hash_file(path) for path in sorted(folder.iterdir()) if path.is_file()}


def changed_files(folder: Path, hashes: Mapping[str, str]) -> list[str]:
    """The names of files that are missing or whose hash differs.

    Args:
        hashes: expected SHA-256 by file name.

    Raises:
        ReadWriteError: a file cannot be read.
    """
    paths = {name: folder / name for name in hashes}
    return [name for name, path in paths.items() if not path.is_file() or hash_file(path) != hashes[name]]


@cache
def host_name() -> str:
    """Name of this host in names of files, with the namespace of its process numbers (each container has its own)."""
    name = re.sub(r"[^\w-]", "-", socket.gethostname())[:32] or "host"
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return name
    return f"{name}-{namespace:x}"


def temporary_beside(path: Path) -> Path:
    """A path in the same folder, thus on the same file system, that no other process uses."""
    return path.with_name(f".{path.name}.{host_name()}.{os.getpid()}.tmp")


def remove_abandoned(path: Path) -> None:
    """Remove the temporary files and folders for `path` that dead processes of this host left behind, if possible."""
    with contextlib.suppress(OSError):
        for temporary in _temporaries(path.parent):
            match = _NAME.fullmatch(temporary.name)
            is_ours = match and match["name"] == path.name and match["host"] == host_name()
            if match and is_ours and not _is_alive(int(match["pid"])):
                _remove(temporary)


def remove_all_abandoned(folder: Path) -> None:
    """Remove all temporary files and folders in a folder, except those of other live processes of this host.

    Requires the lock of the run folder that `folder` belongs to: processes of other hosts then do not write there.

    Raises:
        OSError: one of them cannot be removed.
    """
    for temporary in _temporaries(folder):
        match = _NAME.fullmatch(temporary.name)
        pid = int(match["pid"]) if match and match["host"] == host_name() else os.getpid()
        if pid == os.getpid() or not _is_alive(pid):
            _remove(temporary)


def _temporaries(folder: Path) -> list[Path]:
    """Files and folders with the name of a temporary one, with or without a host."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return [folder / entry.name for entry in entries if _TEMPORARY.fullmatch(entry.name)]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # the process of another user, or a number that no process has
        return True
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)  # another process may be removing it too
    else:
        path.unlink(missing_ok=True)
