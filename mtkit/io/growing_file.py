"""One output file that grows under the name FILE.part and is renamed to FILE when it is complete."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path
from typing import IO

from mtkit.errors import UsageError
from mtkit.io.files import create_temp_file, replace_file, translate_read_errors, translate_write_errors

_CHUNK = 1 << 20  # bytes read at a time


def part_of(path: Path) -> Path:
    """FILE.part."""
    return path.with_name(path.name + ".part")


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


class GrowingFile:
    """A file to which bytes are appended, with the hash of its content.

    Attributes:
        num_bytes: length of what was kept and written.
    """

    def __init__(self, path: Path) -> None:
        """Take FILE.

        Raises:
            UsageError: FILE.part is a link, a folder, a device or a pipe.
        """
        self.path = path
        self.part = part_of(path)
        refuse_special_file(self.part)
        self.num_bytes = 0
        self._hash = hashlib.sha256()
        self._file: IO[bytes] | None = None

    def size(self) -> int:
        """Bytes of FILE.part; of FILE where a kill came between the renames of `finish` of several files."""
        return self._unfinished().stat().st_size if self._unfinished().exists() else 0

    def _unfinished(self) -> Path:
        return self.part if self.part.exists() else self.path

    def keep(self, size: int, digest: str) -> bool:
        """Keep the first `size` bytes, and return whether they have this hash; they are cut off there by `open`."""
        rest, path = size, self._unfinished()
        if not rest:
            return True
        with translate_read_errors(path), path.open("rb") as file:
            while rest and (chunk := file.read(min(rest, _CHUNK))):
                self._hash.update(chunk)
                rest -= len(chunk)
        self.num_bytes = size
        return self._hash.hexdigest() == digest

    def digest(self) -> str:
        """SHA-256 of what was kept and written."""
        return self._hash.hexdigest()

    def open(self) -> None:
        """Open the file for writing, cut off after what is kept."""
        with translate_write_errors(self.path):
            if self.num_bytes and not self.part.exists():
                self.path.rename(self.part)
            create_temp_file(self.part, self.path)
            self._file = self.part.open("r+b")
        with translate_write_errors(self.part):
            self._file.seek(self.num_bytes)
            self._file.truncate()

    def write(self, content: bytes) -> None:
        """Append bytes; they are in the file afterwards, also if this process is killed."""
        if self._file is None:
            raise ValueError(f"{self.part} is not open")
        with translate_write_errors(self.part):
            self._file.write(content)
            self._file.flush()
        self._hash.update(content)
        self.num_bytes += len(content)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with translate_write_errors(self.part):  # on a full disk, closing retries the failed write
                self._file.close()

    def finish(self) -> None:
        """Rename FILE.part to FILE."""
        with translate_write_errors(self.path):
            replace_file(self.part, self.path)
