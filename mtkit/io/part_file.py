"""An output file that grows line by line, can be resumed after a kill, and appears under its name when it is complete.

The lines of FILE go to `FILE.part`. `FILE.part.jsonl` beside it describes them: first a header, the settings that the
lines depend on; then, after each group of lines, a record with hashes of the lines and of their sources.

```
{"header": {"models": ["1c0f..."], "search": ["search.beam_size=5"]}}
{"lines": 4096, "bytes": 215043, "sources": "9b41...", "outputs": "e07d..."}
```

A record is written after its lines. A process that is killed at any moment therefore leaves lines with a record and,
after them, lines without one, which resuming cuts off.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from mtkit.errors import DataError, MissingInputError, UsageError
from mtkit.io.files import create_temp_file, replace_file, translate_read_errors, translate_write_errors
from mtkit.io.lock import OutputLock

_CHUNK = 1 << 20  # bytes read at a time
_START_OVER = "start over without --resume"


@dataclass(frozen=True)
class LineRecord:
    """State of the file after a group of lines.

    Attributes:
        lines: lines in the file.
        bytes: their length.
        sources: hash of what they were made from.
        outputs: SHA-256 of the lines.
    """

    lines: int = 0
    bytes: int = 0
    sources: str = ""
    outputs: str = ""


@contextmanager
def open_part_file(path: Path, header: Mapping[str, Any], *, resume: bool = False) -> Iterator[PartFile]:
    """Lock FILE and open FILE.part, which becomes FILE when the block ends without an error, and otherwise stays.

    An existing FILE.part stays as it is until the first line is written.

    Args:
        path: FILE; a symbolic link is followed.
        header: the settings that the lines depend on.
        resume: continue after the lines of FILE.part that have a record.

    Raises:
        BusyError: another process is writing the same file.
        UsageError: FILE.part or FILE.part.jsonl is a link, a folder, a device or a pipe.
        DataError: the lines of FILE.part depend on another header, or were changed.
        ReadWriteError: a file cannot be read or written.
    """
    path = Path(os.path.realpath(path))
    with OutputLock(path):
        part = PartFile(path, header)
        if resume:
            part.read()
        try:
            yield part
        except BaseException:
            part.close()
            raise
        part.finish()


def part_paths(path: Path) -> tuple[Path, Path]:
    """FILE.part and FILE.part.jsonl, beside the target of a symbolic link."""
    path = Path(os.path.realpath(path))
    return path.with_name(path.name + ".part"), path.with_name(path.name + ".part.jsonl")


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


class PartFile:
    """FILE.part and FILE.part.jsonl; see `open_part_file`.

    Attributes:
        resumed: the record of the lines that are kept.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        """Take FILE, which this process has locked, and the header."""
        self.path = path
        self.part, self.journal = part_paths(path)
        for each in (self.part, self.journal):
            refuse_special_file(each)
        self.resumed = LineRecord()
        self._header: dict[str, Any] = json.loads(json.dumps(dict(header)))
        self._journal_bytes = 0  # of the journal, that are kept
        self._num_lines = self._num_bytes = 0
        self._outputs = hashlib.sha256()
        self._files: tuple[IO[bytes], IO[bytes]] | None = None

    def read(self) -> None:
        """Find the lines to keep.

        Raises:
            DataError: see `open_part_file`.
        """
        if not self.part.exists() or not self.part.stat().st_size:
            return
        header, records = self._read_journal()
        if header != self._header:
            raise DataError(f"{self.part}: {_difference(header, self._header)}; {_START_OVER}")
        size = self.part.stat().st_size
        self.resumed, self._journal_bytes = next(each for each in reversed(records) if each[0].bytes <= size)
        self._num_lines, self._num_bytes = self.resumed.lines, self.resumed.bytes
        with translate_read_errors(self.part), self.part.open("rb") as file:
            rest = self._num_bytes
            while rest and (chunk := file.read(min(rest, _CHUNK))):
                self._outputs.update(chunk)
                rest -= len(chunk)
        if self._num_lines and self._outputs.hexdigest() != self.resumed.outputs:
            raise DataError(f"{self.part}: changed since it was written; {_START_OVER}")

    def _read_journal(self) -> tuple[Any, list[tuple[LineRecord, int]]]:
        """The header, and each record with the number of bytes up to its end; the first one is of no lines."""
        try:
            with translate_read_errors(self.journal):
                first, *lines = self.journal.read_bytes().split(b"\n")[:-1]  # an incomplete last line is left out
            header, end = json.loads(first)["header"], len(first) + 1
            records = [(LineRecord(), end)]
            for line in lines:
                end += len(line) + 1
                record = LineRecord(**json.loads(line))
                records.append((replace(record, lines=int(record.lines), bytes=int(record.bytes)), end))
        except (MissingInputError, ValueError, KeyError, TypeError) as error:
            message = f"{self.journal.name}, which says what {self.part.name} is made from, is missing or damaged"
            raise DataError(f"{self.part}: {message}; {_START_OVER}") from error
        return header, records

    def write(self, line: str) -> None:
        """Append a line; it is in the file afterwards, also if this process is killed."""
        content = line.encode() + b"\n"
        file, _ = self._opened()
        with translate_write_errors(self.part):
            file.write(content)
            file.flush()
        self._outputs.update(content)
        self._num_lines, self._num_bytes = self._num_lines + 1, self._num_bytes + len(content)

    def record(self, sources: str) -> None:
        """Mark the lines written so far as those to continue after.

        Args:
            sources: hash of what all of them were made from.
        """
        record = LineRecord(self._num_lines, self._num_bytes, sources, self._outputs.hexdigest())
        _, journal = self._opened()
        with translate_write_errors(self.journal):
            journal.write(json.dumps(asdict(record)).encode() + b"\n")
            journal.flush()

    def _opened(self) -> tuple[IO[bytes], IO[bytes]]:
        """Both files, cut off after what is kept; opened at the first call."""
        if self._files is None:
            with translate_write_errors(self.path):
                create_temp_file(self.part, self.path)
                file, journal = self.part.open("r+b"), self.journal.open("ab")
            self._files = file, journal
            with translate_write_errors(self.part):
                file.seek(self._num_bytes)
                file.truncate()  # before the journal loses its header, so that no lines are without one
                journal.truncate(self._journal_bytes)
                if not self._journal_bytes:
                    journal.write(json.dumps({"header": self._header}).encode() + b"\n")
                    journal.flush()
        return self._files

    def close(self) -> None:
        """Close the files."""
        with translate_write_errors(self.part):  # on a full disk, closing retries the failed write
            for file in self._files or ():
                file.close()

    def finish(self) -> None:
        """Close the files, and rename FILE.part to FILE."""
        self._opened()
        self.close()
        with translate_write_errors(self.path):
            replace_file(self.part, self.path)
            self.journal.unlink(missing_ok=True)


def _difference(old: Any, new: Mapping[str, Any]) -> str:
    """The keys in which two headers differ."""
    if not isinstance(old, dict):
        return "written by another version of mtkit"
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    return "was written with " + ", ".join(f"{key} {_short(old.get(key))}, not {_short(new.get(key))}" for key in keys)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
