"""Shards: consecutive parts of a text that jobs of an array make, each in files of its own, and their joining.

The lines of FILE that shard 2 of 8 makes are in `FILE.shard-2-of-8`. `FILE.shard-2-of-8.json` beside it says that they
are complete: what they depend on, and hashes of the files.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from mtkit.display import printable
from mtkit.errors import DataError, MissingInputError, UsageError
from mtkit.io.files import changed_files, hash_file, translate_read_errors, translate_write_errors, write_atomically
from mtkit.io.records import Json, is_record, read_record, write_record

_NAME = re.compile(r"(?P<name>.+)\.shard-(?P<index>\d+)-of-(?P<count>\d+)(?P<record>\.json)?", re.DOTALL)
_REMEDY = "make this shard again"


@dataclass(frozen=True)
class Shard:
    """Part `index` (from 1) of a text in `count` parts."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The shard of a text such as 2/8.

        Raises:
            UsageError: it is none.
        """
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal() and 1 <= int(index[:9]) <= int(count[:9])):
            raise UsageError(f"--shard {printable(text)}: I/N is expected, with I from 1 to N, such as 2/8")
        return cls(int(index), int(count))

    def bounds(self, lines: int) -> tuple[int, int]:
        """The first line, from 0, and the end of the lines of this part."""
        return (self.index - 1) * lines // self.count, self.index * lines // self.count

    def of(self, path: Path) -> Path:
        """The file of this part."""
        return path.with_name(f"{path.name}.shard-{self.index}-of-{self.count}")

    def is_made(self, path: Path, inputs: Json) -> bool:
        """Return whether the part of a file is complete and made from these inputs."""
        record = _record_of(self.of(path))
        known = read_record(record, remedy=_REMEDY) if is_record(record) else {}
        return known.get("inputs") == inputs and not changed_files(record.parent, known["files"])

    def make(self, paths: Sequence[Path], inputs: Json, make: Callable[[list[Path]], None]) -> bool:
        """Make this part of files, unless it is made; return whether it was to be made.

        Args:
            paths: FILE, and others about the same lines.
            inputs: what the lines depend on, as JSON values.
            make: writes the files of the part.
        """
        if self.is_made(paths[0], inputs):
            return False
        files = [self.of(path) for path in paths]
        make(files)
        record = _record_of(files[0])
        hashes = {os.path.relpath(file, record.parent): hash_file(file) for file in files}
        write_record(record, {"inputs": inputs, "files": hashes})
        return True


def _record_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def find_shards(path: Path) -> list[Shard]:
    """The shards of a file that are complete, in order.

    Raises:
        UsageError: they are of several divisions, or some are missing.
    """
    matches = [_NAME.fullmatch(each.name) for each in path.parent.glob("*.json")] if path.parent.is_dir() else []
    found = [each for each in matches if each is not None and each["name"] == path.name and each["record"]]
    counts = sorted({int(each["count"]) for each in found})
    if len(counts) > 1:
        raise UsageError(f"{path}: has shards of {' and of '.join(map(str, counts))}; delete those of one division")
    shards = {int(each["index"]) for each in found}
    if missing := [number for number in range(1, counts[0] + 1) if number not in shards] if counts else []:
        listed = ", ".join(f"{number}/{counts[0]}" for number in missing[:10]) + (", ..." if len(missing) > 10 else "")
        raise UsageError(f"{path}: {len(shards)} of {counts[0]} shards are complete; missing: --shard {listed}")
    return [Shard(number, counts[0]) for number in sorted(shards)]


def remove_shards(path: Path) -> None:
    """Delete the shards of a file that are complete; errors as `find_shards`."""
    for shard in find_shards(path):
        with translate_write_errors(path):
            shard.of(path).unlink(missing_ok=True)
            _record_of(shard.of(path)).unlink()


def merge_shards(path: Path) -> list[Path]:
    """Join the shards of a file, and those of the files that were made with it; return these files.

    Raises:
        UsageError: as `find_shards`.
        MissingInputError: there is none.
        DataError: they were made from other text or settings, or changed since.
        ReadWriteError: a file cannot be read or written.
    """
    shards = find_shards(path)
    if not shards:
        remedy = "; the command that made it joins its shards, without --shard" if path.is_dir() else ""
        raise MissingInputError(f"{path}: has no complete shard ({Shard(1, 2).of(path).name}){remedy}")
    records = [read_record(_record_of(shard.of(path)), remedy=_REMEDY) for shard in shards]
    for shard, record in zip(shards, records, strict=True):
        if record["inputs"] != records[0]["inputs"]:
            raise DataError(f"{shard.of(path)}: made from other text or settings than the first; {_REMEDY}")
        if changed := changed_files(path.parent, record["files"]):
            raise DataError(f"{path.parent / changed[0]}: changed since it was made; {_REMEDY}")
    columns = zip(*(record["files"] for record in records), strict=True)
    outputs = []
    with ExitStack() as stack:
        for names in columns:
            match = _NAME.fullmatch(names[0])
            outputs.append(path.parent / (match["name"] if match is not None else names[0]))
            file = stack.enter_context(stack.enter_context(write_atomically(outputs[-1])).open("wb"))
            for name in names:
                _append(path.parent / name, file)
    return outputs


def _append(part: Path, file: IO[bytes]) -> None:
    with translate_read_errors(part), part.open("rb") as content:
        shutil.copyfileobj(content, file)
