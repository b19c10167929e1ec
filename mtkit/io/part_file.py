"""Output files that grow line by line, can be resumed after a kill, and appear under their names when all are complete.

The lines of FILE go to `FILE.part`. Other files that describe the same lines grow with it, as `OTHER.part`.
`FILE.part.jsonl` beside it describes all of them: first a header, the settings that the lines depend on; then, after
each group of lines, a record with hashes of what was written and of its sources.

```
{"header": {"models": ["1c0f..."], "search": ["search.beam_size=5"]}}
{"lines": 4096, "sources": "9b41...", "bytes": [215043, 310], "outputs": ["e07d...", "55ab..."]}
```

A record is written after its lines. A process that is killed at any moment therefore leaves lines with a record and,
after them, lines without one, which resuming cuts off.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from mtkit.display import count_of
from mtkit.errors import DataError, MissingInputError
from mtkit.io.files import (
    create_temp_file,
    refuse_special_file,
    replace_file,
    translate_read_errors,
    translate_write_errors,
)
from mtkit.io.json_text import parse_json
from mtkit.io.lock import OutputLock

_CHUNK = 1 << 20  # bytes read at a time
_START_OVER = "start over without --resume"


@dataclass(frozen=True)
class LineRecord:
    """State of the files after a group of lines.

    Attributes:
        lines: calls of `PartFile.write`.
        sources: hash of what the lines were made from.
        bytes: length of each file.
        outputs: SHA-256 of each file.
    """

    lines: int = 0
    sources: str = ""
    bytes: Sequence[int] = ()
    outputs: Sequence[str] = ()


@contextmanager
def open_part_file(
    path: Path, header: Mapping[str, Any], *, beside: Sequence[Path] = (), resume: bool = False
) -> Iterator[PartFile]:
    """Lock FILE and open FILE.part, which becomes FILE when the block ends without an error, and otherwise stays.

    An existing FILE.part stays as it is until the first line is written. An error after that gets a note
    (`BaseException.add_note`) that says how many lines are kept.

    Args:
        path: FILE; a symbolic link is followed.
        header: the settings that the lines depend on.
        beside: further files about the same lines, which become complete together with FILE.
        resume: continue after the lines of FILE.part that have a record.

    Raises:
        BusyError: another process is writing one of the files.
        UsageError: FILE.part or FILE.part.jsonl is a link, a folder, a device or a pipe.
        DataError: the lines of FILE.part depend on another header, or were changed.
        ReadWriteError: a file cannot be read or written.
    """
    paths = [Path(os.path.realpath(each)) for each in (path, *beside)]
    with ExitStack() as locks:
        for each in sorted(paths):
            locks.enter_context(OutputLock(each))
        part = PartFile(paths, header)
        if resume:
            part.read()
        try:
            yield part
        except BaseException as error:
            part.close()
            if part.num_written:
                count = count_of(part.resumed.lines + part.num_written, "finished line")
                command = "the same command" if resume else "the same command with --resume"
                error.add_note(f"{part.part} keeps {count}; {command} continues it")
            raise
        part.finish()


def part_of(path: Path) -> Path:
    """FILE.part."""
    return path.with_name(path.name + ".part")


def part_paths(path: Path) -> tuple[Path, Path]:
    """FILE.part and FILE.part.jsonl, beside the target of a symbolic link."""
    part = part_of(Path(os.path.realpath(path)))
    return part, _journal_of(part)


def _journal_of(part: Path) -> Path:
    return part.with_name(part.name + ".jsonl")


class PartFile:
    """FILE.part, those of the files beside it, and FILE.part.jsonl; see `open_part_file`.

    Attributes:
        resumed: the record of the lines that are kept.
        num_written: calls of `write`.
    """

    def __init__(self, paths: Sequence[Path], header: Mapping[str, Any]) -> None:
        """Take FILE and the files beside it, which this process has locked, and the header."""
        self.files = [GrowingFile(path) for path in paths]
        self.part = self.files[0].part
        self.journal = _journal_of(self.part)
        refuse_special_file(self.journal)
        self.resumed = LineRecord()
        self.num_written = 0
        self._header: dict[str, Any] = json.loads(json.dumps(dict(header)))
        self._journal_bytes = 0  # of the journal, that are kept
        self._open_journal: IO[bytes] | None = None

    def read(self) -> None:
        """Find the lines to keep.

        Raises:
            DataError: see `open_part_file`.
        """
        if not self.part.exists() or not self.part.stat().st_size:
            return
        try:
            with translate_read_errors(self.journal):
                first, *lines = self.journal.read_bytes().split(b"\n")[:-1]  # an incomplete last line is left out
            header, end = parse_json(first)["header"], len(first) + 1
            records = [(LineRecord(), end)]  # each with the number of bytes up to its end
            for line in lines:
                end += len(line) + 1
                record = LineRecord(**parse_json(line))
                if not (len(record.bytes) == len(record.outputs) == len(self.files) and record.lines > 0):
                    raise ValueError("another number of files")
                records.append((record, end))
        except (MissingInputError, ValueError, KeyError, TypeError) as error:
            message = f"{self.journal.name}, which says what {self.part.name} is made from, is missing or damaged"
            raise DataError(f"{self.part}: {message}; {_START_OVER}") from error
        if header != self._header:
            reason = "written by another version of mtkit"
            if isinstance(header, dict):
                keys = [key for key in {**header, **self._header} if header.get(key) != self._header.get(key)]
                reason = "was written with " + ", ".join(
                    f"{key} {_short(header.get(key))}, not {_short(self._header.get(key))}" for key in keys
                )
            raise DataError(f"{self.part}: {reason}; {_START_OVER}")
        sizes = [file.size() for file in self.files]
        self.resumed, self._journal_bytes = next(
            each
            for each in reversed(records)
            if all(size >= kept for size, kept in zip(sizes, each[0].bytes, strict=False))
        )
        for file, size, digest in zip(self.files, self.resumed.bytes, self.resumed.outputs, strict=False):
            if not file.keep(size, digest):
                raise DataError(f"{file.part}: changed since it was written; {_START_OVER}")

    def write(self, *texts: str | None) -> None:
        """Append a line to each file, or none to those with None.

        The lines are in the files afterwards, also if this process is killed.
        """
        self._opened()
        for file, text in zip(self.files, texts, strict=True):
            if text is not None:
                file.write(text.encode() + b"\n")
        self.num_written += 1

    def record(self, sources: str) -> None:
        """Mark the lines written so far as those to continue after.

        Args:
            sources: hash of what all of them were made from.
        """
        sizes, digests = [file.num_bytes for file in self.files], [file.digest() for file in self.files]
        record = LineRecord(self.resumed.lines + self.num_written, sources, sizes, digests)
        self._append(json.dumps(asdict(record)))

    def _append(self, line: str) -> None:
        journal = self._opened()
        with translate_write_errors(self.journal):
            journal.write(line.encode() + b"\n")
            journal.flush()

    def _opened(self) -> IO[bytes]:
        """The journal; at the first call, all files are opened and cut off after what is kept."""
        if self._open_journal is None:
            for file in self.files:
                file.open()  # cut off before the journal loses its header, so that no lines are without one
            with translate_write_errors(self.journal):
                self._open_journal = self.journal.open("ab")
                self._open_journal.truncate(self._journal_bytes)
            if not self._journal_bytes:
                self._append(json.dumps({"header": self._header}))
        return self._open_journal

    def close(self) -> None:
        """Close the files."""
        for file in self.files:
            file.close()
        if self._open_journal is not None:
            with translate_write_errors(self.journal):
                self._open_journal.close()

    def finish(self) -> None:
        """Close the files, and rename them to their names, FILE last."""
        self._opened()
        self.close()
        for file in reversed(self.files):
            file.finish()
        with translate_write_errors(self.journal):
            self.journal.unlink(missing_ok=True)


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


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
