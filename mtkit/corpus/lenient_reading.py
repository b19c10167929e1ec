"""Text to be checked: read to the end in spite of its faults, which are recorded with their places."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from mtkit.documents.pairs import OneSided
from mtkit.errors import DataError
from mtkit.io.files import translate_read_errors
from mtkit.text.lines import line_blocks

Side = Literal["src", "tgt"]
Record = Callable[[str, Side, int], None]  # kind of fault, side, number of the line from 0
BLOCK_LINES, BLOCK_CHARACTERS = 10_000, 1 << 23  # read at a time
BINARY_SHARE = 0.1  # zero bytes for each line of a first block
NUM_PLACES = 100  # of a kind of fault that reports store


@dataclass
class ParallelInput:
    """A text to check.

    Attributes:
        names: of the two sides, before the number of a line.
        files: whose lines they are; empty if both sides are in one document.
        read: both sides line by line, from the beginning with each call; a side that has ended gives None. The second
            argument of `record` is the side, the third the number of the line from 0.
        langs: stated languages; None: that of most lines.
        line_numbers: of the file, for each pair; empty: they are counted.
        paths: of all files that are read.
        one_sided: what a document has of these, once it was read to the end.
        resources: are kept as long as the text, such as a temporary folder.
    """

    names: tuple[str, str]
    read: Callable[[Record], Iterator[tuple[str | None, str | None]]]
    langs: tuple[str | None, str | None] = (None, None)
    line_numbers: list[int] = field(default_factory=list)
    files: tuple[Path, ...] = ()
    paths: Sequence[Path] = ()
    one_sided: OneSided = field(default_factory=OneSided)
    resources: object = None

    @classmethod
    def of_files(cls, src: Path, tgt: Path, langs: tuple[str | None, str | None] = (None, None)) -> ParallelInput:
        """Two files of lines."""

        def read(record: Record) -> Iterator[tuple[str | None, str | None]]:
            return zip_longest(lenient_lines(src, "src", record), lenient_lines(tgt, "tgt", record))

        return cls((str(src), str(tgt)), read, langs, files=(src, tgt), paths=(src, tgt))

    @property
    def name(self) -> str:
        """The names of both sides in one."""
        return " and ".join(dict.fromkeys(self.names))

    def read_bytes(self) -> Iterator[tuple[bytes, bytes]]:
        """The bytes of both sides line by line, without line ends; line breaks in a document become spaces."""
        if self.files:
            src, tgt = map(_raw_lines, self.files)
            yield from zip(src, tgt, strict=False)
        else:
            for one, other in self.read(lambda *place: None):
                yield tuple(re.sub(r"[\r\n]+", " ", str(text)).encode() for text in (one, other))  # type: ignore[misc]

    def line(self, number: int) -> int:
        """The line in the file, from 1, of a pair counted from 0."""
        return self.line_numbers[number] if self.line_numbers else number + 1

    def origin(self, number: int) -> dict[str, str | int]:
        """The line of a pair counted from 0, as JSON values."""
        return {"line": self.line(number)}

    def place(self, side: int, start: int, end: int | None = None) -> str:
        """FILE:LINE of a line counted from 0, or FILE:LINE-LINE before `end`."""
        first, last = map(self.line, (start, (end or start + 1) - 1))
        return f"{self.names[side]}:{first}" + (f"-{last}" if last > first else "")


@dataclass
class JoinedInput(ParallelInput):
    """Several texts that are checked as one.

    Attributes:
        starts: number of the first pair of each text, known once that was read.
    """

    parts: Sequence[ParallelInput] = ()
    starts: list[int] = field(default_factory=list)

    @classmethod
    def of_parts(cls, name: str, parts: Sequence[ParallelInput]) -> JoinedInput:
        """The texts in their order, with a name for all."""
        paths = [path for part in parts for path in part.paths]
        text = cls((name, name), iter, parts[0].langs, paths=paths, parts=parts)  # type: ignore[arg-type]
        text.read = text._read
        return text

    def _read(self, record: Record) -> Iterator[tuple[str | None, str | None]]:
        number, self.one_sided = 0, OneSided()
        for index, part in enumerate(self.parts):
            if index == len(self.starts):
                self.starts.append(number)
            for pair in part.read(partial(_record_from, record, number)):
                yield pair
                number += 1
            self.one_sided.count += part.one_sided.count
            self.one_sided.first = self.one_sided.first or part.one_sided.first

    def read_bytes(self) -> Iterator[tuple[bytes, bytes]]:
        """The bytes of all texts; as of each."""
        for part in self.parts:
            yield from part.read_bytes()

    def _locate(self, number: int) -> tuple[ParallelInput, int]:
        """The text of a pair counted from 0, and the number of the pair in it."""
        index = bisect_right(self.starts, number) - 1
        return self.parts[index], number - self.starts[index]

    def origin(self, number: int) -> dict[str, str | int]:
        """The file and the line of a pair counted from 0, as JSON values."""
        part, number = self._locate(number)
        return {"file": part.name, **part.origin(number)}

    def place(self, side: int, start: int, end: int | None = None) -> str:
        """FILE:LINE, FILE:LINE-LINE, or the first and the last place of lines in several files."""
        part, first = self._locate(start)
        last_part, last = self._locate((end or start + 1) - 1)
        if part is last_part:
            return part.place(side, first, last + 1)
        return f"{part.place(side, first)} to {last_part.place(side, last)}"


def _record_from(record: Record, start: int, kind: str, side: Side, number: int) -> None:
    record(kind, side, start + number)


def shown_places(places: Sequence[str], details: Sequence[str], count: int, *, limit: int) -> str:
    """The first places of `count` faults and what is to be said about them, for people."""
    shown = [f"{place} ({detail})" if detail else place for place, detail in zip(places, details, strict=True)]
    return ", ".join(shown[:limit]) + (", ..." if count > limit < len(places) else "")


_LINE_BREAKS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029\r]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ue000-\uf8ff\U000f0000-\U0010ffff]")
_MOJIBAKE = re.compile("[\u00c2\u00c3][\u0080-\u00bf]|\u00e2\u20ac[\u0080-\u00bf\u2018-\u2122\u0152-\u017e]")
_CHARACTERS = {
    "line_break": _LINE_BREAKS,
    "control": _CONTROL,
    "replacement": re.compile("\ufffd"),
    "mojibake": _MOJIBAKE,
}
_ANY = re.compile("|".join(pattern.pattern for pattern in _CHARACTERS.values()))
_BOM = b"\xef\xbb\xbf"


def _raw_lines(path: Path) -> Iterator[bytes]:
    for block in line_blocks(path):
        yield from block.removesuffix(b"\n").split(b"\n")


def lenient_lines(path: Path, side: Side, record: Record) -> Iterator[str]:
    """The lines of a file, without bytes that are not UTF-8; what is odd about them is recorded.

    Raises:
        DataError: the file is binary, compressed and damaged, or changed while it was read, or a line is too long.
        MissingInputError, ReadWriteError, MissingExtraError: as `read_lines`.
    """
    with translate_read_errors(path, allow_stream=True):
        before = path.stat()
    number = 0
    for block in line_blocks(path):
        if not number:
            _forbid_binary(path, block)
        if not number and block.startswith(_BOM):
            record("bom", side, 0)
            block = block.removeprefix(_BOM)
        if not block:
            return
        content = block.removesuffix(b"\n")
        text = content.decode(errors="ignore")
        for index in _not_utf8(content) if len(text.encode()) < len(content) else ():
            record("not_utf8", side, number + index)
        if "\r\n" in text or text.endswith("\r"):
            text = text.replace("\r\n", "\n").removesuffix("\r")
        lines = text.split("\n")
        for index, line in enumerate(lines, number) if _ANY.search(text) else ():
            record_characters(line, side, index, record)
        yield from lines
        number += len(lines)
    after = path.stat()
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise DataError(f"{path}: changed while it was read; check it again when it is complete")


def _not_utf8(content: bytes) -> Iterator[int]:
    for index, line in enumerate(content.split(b"\n")):
        if len(line.decode(errors="ignore").encode()) < len(line):
            yield index


def _forbid_binary(path: Path, block: bytes) -> None:
    if block.count(0) > BINARY_SHARE * (block.count(b"\n") + 1):
        is_utf16 = block[:2] in (b"\xff\xfe", b"\xfe\xff")
        remedy = "iconv -f utf-16 -t utf-8, if it is UTF-16" if is_utf16 else "give a text"
        raise DataError(f"{path}: binary, not UTF-8 text; {remedy}")


def record_characters(line: str, side: Side, number: int, record: Record) -> None:
    """Record the kinds of odd characters of a line."""
    if _ANY.search(line):
        for kind, pattern in _CHARACTERS.items():
            if pattern.search(line):
                record(kind, side, number)


def pair_blocks(pairs: Iterator[tuple[str | None, str | None]]) -> Iterator[list[tuple[str | None, str | None]]]:
    """Blocks of at most BLOCK_LINES pairs and about BLOCK_CHARACTERS characters."""
    block: list[tuple[str | None, str | None]] = []
    characters = 0
    for pair in pairs:
        block.append(pair)
        characters += len(pair[0] or "") + len(pair[1] or "")
        if len(block) == BLOCK_LINES or characters > BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block
