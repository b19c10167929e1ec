"""Durable writes, content hashes, and the operating system's refusals in our words.

A file or folder that we write is either there as a whole or not at all, also after a power cut: it is written under
another name beside its place, flushed to the disk (fsync), renamed, and the folder that holds the name is flushed too.
What the operating system refuses is raised as an error of ours that names the path.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Never

from mtkit.errors import DamagedError, MissingInputError, ReadWriteError

_CHUNK = 1 << 20  # bytes read at a time


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what the operating system says while `path` is read into errors of ours.

    Raises:
        MissingInputError: there is no such file, or it is a folder.
        ReadWriteError: it is there and cannot be read.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except FileNotFoundError as error:
        raise MissingInputError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise MissingInputError(f"{path}: a folder, where a file is expected") from error
    except OSError as error:
        raise ReadWriteError(f"{path}: cannot be read: {_reason(error)}") from error


def check_plain(path: Path) -> None:
    """Refuse what cannot be read twice, such as a pipe.

    Raises:
        MissingInputError: no plain file, or none at all.
    """
    with reading(path):
        mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise MissingInputError(f"{path}: a folder, where a file is expected")
    if not stat.S_ISREG(mode):
        raise MissingInputError(f"{path}: a pipe or device, and this is read more than once; write it to a file first")


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
        reason = "takes no new files" if path.parent.is_dir() else "is not there"
        raise ReadWriteError(f"{path}: cannot be written: the folder {path.parent} {reason}") from error
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

    An existing file is replaced and its permissions are kept; a symbolic link is followed; a device or pipe is written
    to directly.

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
            begin_file(temporary, path)
            yield temporary
            replace_file(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def begin_file(temporary: Path, path: Path) -> None:
    """Make an empty file that shall replace `path`; where that is there, nobody else may read it meanwhile.

    Raises:
        OSError: the operating system refuses.
    """
    temporary.touch(mode=0o600 if path.exists() else 0o666)


def replace_file(temporary: Path, path: Path) -> None:
    """Put a finished file durably in the place of `path`, with the permissions that a file there has.

    Raises:
        OSError: the disk failed or is full.
    """
    if path.exists():
        shutil.copymode(path, temporary)
    flush_to_disk(temporary)
    temporary.replace(path)
    flush_to_disk(path.parent)


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


def load_json(path: Path, *, remedy: str) -> dict[str, Any]:
    """The JSON object that a file of ours holds; hashes of other files stand in it under `sha256`.

    Args:
        path: the file.
        remedy: ends the message if it is damaged.

    Raises:
        MissingInputError, ReadWriteError: as `reading`.
        DamagedError: it holds something else.
    """
    with reading(path):
        content = path.read_bytes()
    try:
        found = json.loads(content, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        what = f"{path}: damaged: no JSON from line {error.lineno}, column {error.colno} on"
        raise DamagedError(what, remedy) from error
    except (ValueError, RecursionError) as error:  # no text, NaN, a number of thousands of digits
        raise DamagedError(f"{path}: damaged: no JSON", remedy) from error
    if not isinstance(found, dict) or not isinstance(found.get("sha256", {}), dict):
        raise DamagedError(f"{path}: damaged: not a JSON object", remedy)
    return found


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is no JSON")


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
    between these two steps, `recover_folder` brings it back. The new one has the old one's permissions.

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
            shutil.copymode(final, temporary)
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


def hash_files(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a folder, by name.

    Raises:
        MissingInputError, ReadWriteError: as `reading`.
    """
    with reading(folder):
        return {path.name: hash_file(path) for path in sorted(folder.iterdir()) if path.is_file()}


def changed_files(folder: Path, hashes: Mapping[str, str]) -> list[str]:
    """The names of the files that are missing or no longer have these hashes.

    Raises:
        ReadWriteError: a file cannot be read.
    """
    wrong = []
    for name, stated in hashes.items():
        path = folder / name
        if not path.is_file() or hash_file(path) != stated:
            wrong.append(name)
    return wrong
