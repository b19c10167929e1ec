"""CSV and TSV: the cells of all columns, or of those that are named, below the header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from mtkit.documents.reading import split_stretches
from mtkit.documents.unit import StretchError, TextUnit, has_words
from mtkit.text.structure.marked import Marked

_LINE_END = re.compile(r"\n|\r(?!\n|\Z)")  # a carriage return at the end of a chunk may be half of one
_DELIMITERS = ",;\t|"


class TableFile:
    """A table whose first record is its header; cells of CSV may be quoted, those of TSV are not."""

    is_xml = has_references = False

    def __init__(self, *, quoted: bool, columns: Sequence[str] = ()) -> None:
        self._quoted = quoted
        self._names = columns
        self._delimiter = "\t"
        self._columns: set[int] | None = None  # None: the header is still to come

    def stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """A record each."""
        return split_stretches(chunks, self._ends)

    def _ends(self, text: str) -> Iterator[int]:
        is_inside, start = False, 0
        for end in _LINE_END.finditer(text):
            is_inside ^= self._quoted and bool(text.count('"', start, end.start()) % 2)
            start = end.end()
            if not is_inside:
                yield start

    def _cells(self, record: str) -> list[tuple[int, int]]:
        """(start, end) of each cell."""
        delimiter = re.escape(self._delimiter)
        cell = rf'"(?:[^"]|"")*"|[^{delimiter}\r\n]*' if self._quoted else rf"[^{delimiter}\r\n]*"
        cells, position = [], 1 if record.startswith("\ufeff") else 0
        while (match := re.compile(cell).match(record, position)) is not None:
            cells.append(match.span())
            position = match.end() + 1
            if record[match.end() : position] != self._delimiter:
                break
        if record[cells[-1][1] :].strip("\r\n"):
            raise StretchError(cells[-1][1], "text after the closing quote of a cell, or a quote that is never closed")
        return cells

    def _header(self, record: str) -> None:
        if self._quoted:
            first = re.sub(r'"[^"]*"', "", record)
            self._delimiter = max(_DELIMITERS, key=first.count)
        names = [self._text(record, *cell) for cell in self._cells(record)]
        if missing := [name for name in self._names if name not in names]:
            raise StretchError(0, f"the header has no column {missing[0]!r}; it has {', '.join(names)[:200]}")
        self._columns = {i for i, name in enumerate(names) if not self._names or name in self._names}

    def _text(self, record: str, start: int, end: int) -> str:
        cell = record[start:end]
        return cell[1:-1].replace('""', '"') if self._quoted and cell.startswith('"') else cell

    def units(self, stretch: str) -> list[TextUnit]:
        """The cells of the next record."""
        if self._columns is None:
            self._header(stretch)
            return []
        if not stretch.strip():
            return []
        units = []
        for index, (start, end) in enumerate(self._cells(stretch)):
            text = self._text(stretch, start, end)
            if index in self._columns and has_words(text):
                is_quoted = self._quoted and stretch[start] == '"'
                units.append(
                    TextUnit(
                        start=start, end=end, source=Marked(text), escape=self._quote if is_quoted else self._plain
                    )
                )
        return units

    def pairs(self, stretch: str) -> Iterator[tuple[Marked, Marked]]:
        """The first two cells of the next record, the header included."""
        if self._columns is None:
            self._header(stretch)
        if stretch.strip() and len(cells := self._cells(stretch)) > 1:
            source, target = (self._text(stretch, *cell) for cell in cells[:2])
            if source.strip() and target.strip():
                yield Marked(source), Marked(target)

    def _quote(self, text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    def _plain(self, text: str) -> str:
        """A cell without quotes, if it needs none."""
        if not self._quoted:
            return text.replace(self._delimiter, " ")
        needs_quotes = any(char in text for char in (self._delimiter, '"', "\n", "\r"))
        return self._quote(text) if needs_quotes else text
