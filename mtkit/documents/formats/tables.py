"""CSV and TSV: the cells of all columns, or of those that are named, below the header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from mtkit.documents.format import DocumentFormat, DocumentOptions
from mtkit.documents.markup import possessive
from mtkit.documents.reading import split_stretches
from mtkit.documents.unit import StretchError, TextUnit, has_words, left_unit
from mtkit.text.marked import Marked

_LINE_END = re.compile(r"\n|\r(?!\n|\Z)")  # a carriage return at the end of a chunk may be half of one
_QUOTED = '"' + possessive('[^"]|""') + '"'
_DELIMITERS = ",;\t|"
_BEYOND = "in cells beyond the header"
_SEPARATOR = re.compile(r"\ufeff?sep=([^\r\n\"])\r?\n?")  # first line of some spreadsheet programs


def pair_columns(header: Sequence[str], options: DocumentOptions) -> tuple[int, int] | None:
    """The columns of source and target by a first row; None if it is a pair of the first two columns.

    The columns are those of `side_names`, which are found in any case of letters unless the options state them.

    Raises:
        StretchError: there is no column of a name that the options state.
    """
    if options.fields:
        if missing := [name for name in options.fields if name not in header]:
            raise StretchError(0, f"the header has no column {missing[0]!r}; it has {', '.join(header)[:200]}")
        return header.index(options.fields[0]), header.index(options.fields[1])
    names = [name.strip().lower() for name in header]
    for src, tgt in options.side_names:
        if src and tgt and src.lower() in names and tgt.lower() in names:
            return names.index(src.lower()), names.index(tgt.lower())
    return None


class TableFile(DocumentFormat):
    """A table whose first record is its header; cells of CSV may be quoted, those of TSV are not.

    A quote inside a cell that does not begin with one is a character, as for Python's `csv` and spreadsheet programs.
    """

    suffixes = (".csv", ".tsv")
    has_pairs = has_fields = has_columns = True

    def __init__(self, options: DocumentOptions) -> None:
        super().__init__(options)
        self._quoted = options.suffix == ".csv"
        self._names = options.fields
        self._delimiter = "" if self._quoted else "\t"  # empty: the first record is still to come
        self._columns: set[int] | None = None  # None: the header is still to come

    def guessed_languages(self) -> tuple[str, ...]:
        """Both languages, since a table may have a column of each."""
        return self.options.src_lang, self.options.tgt_lang

    def stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """A record each."""
        return split_stretches(chunks, self._ends)

    def _ends(self, text: str) -> Iterator[int]:
        if not self._quoted:
            yield from (match.end() for match in _LINE_END.finditer(text))
            return
        if not self._delimiter:
            self._choose_delimiter(text)
        if not self._delimiter:
            return
        position, record = 0, _record(self._delimiter)
        while (match := record.match(text, position)) is not None:
            position = match.end()
            yield position

    def _choose_delimiter(self, text: str, *, is_last: bool = False) -> None:
        """Take the delimiter that the first line states, or by which the first record, if there, has most cells."""
        stated = _SEPARATOR.match(text)
        records = {each: _record(each).match(text) for each in _DELIMITERS}
        first = {each: text if is_last else "" if match is None else match[0] for each, match in records.items()}
        if stated is not None and any(first.values()):
            self._delimiter = stated[1]
        elif any(first.values()):
            self._delimiter = max(_DELIMITERS, key=lambda each: len(_spans(first[each], each, quoted=True)))

    def _cells(self, record: str) -> list[tuple[int, int]]:
        """(start, end) of each cell."""
        cells = _spans(record, self._delimiter, quoted=self._quoted)
        if record[cells[-1][1] :].strip("\r\n"):
            raise StretchError(cells[-1][1], "text after the closing quote of a cell, or a quote that is never closed")
        return cells

    def _header(self, record: str) -> bool:
        """Take the header; return whether this record is one, and not the line that states the delimiter."""
        if not self._delimiter:
            self._choose_delimiter(record, is_last=True)
        if self._quoted and _SEPARATOR.fullmatch(record):
            return False
        names = [self._text(record, *cell) for cell in self._cells(record)]
        if missing := [name for name in self._names if name not in names]:
            raise StretchError(0, f"the header has no column {missing[0]!r}; it has {', '.join(names)[:200]}")
        self._columns = {i for i, name in enumerate(names) if not self._names or name in self._names}
        self._width = len(names)
        return True

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
        units, cells = [], self._cells(stretch)
        if self._width == 1 and all(stretch.startswith(f"{self._delimiter} ", end) for _, end in cells[:-1]):
            cells = [(cells[0][0], cells[-1][1])]  # commas of a text
        for index, (start, end) in enumerate(cells):
            text = self._text(stretch, start, end)
            if index >= self._width and not self._names and has_words(text):
                units.append(left_unit(_BEYOND, Marked(text)))
            elif index in self._columns and has_words(text):
                is_quoted = self._quoted and stretch[start] == '"'
                escape = self._quote if is_quoted else self._plain
                units.append(TextUnit(start=start, end=end, source=Marked(text), escape=escape))
        return units

    def pairs(self, stretch: str, line: int) -> Iterator[tuple[int, str, str]]:
        """The cells of the next record in the columns of `pair_columns`."""
        is_first = self._columns is None
        if is_first and not self._header(stretch):
            return
        cells = self._cells(stretch)
        if is_first:
            named = pair_columns([self._text(stretch, *cell) for cell in cells], self.options)
            self._sides = named or (0, 1)
            if named is not None:
                return
        source, target = (self._text(stretch, *cells[side]) if side < len(cells) else "" for side in self._sides)
        yield line, source, target

    def _quote(self, text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    def _plain(self, text: str) -> str:
        """A cell without quotes, if it needs none."""
        if not self._quoted:
            return text.replace(self._delimiter, " ")
        needs_quotes = any(char in text for char in (self._delimiter, '"', "\n", "\r"))
        return self._quote(text) if needs_quotes else text


def _spans(record: str, delimiter: str, *, quoted: bool) -> list[tuple[int, int]]:
    """(start, end) of each cell of a record, up to one that begins with a quote and does not end with it."""
    cell, spans, position = _cell(delimiter, quoted=quoted), [], int(record.startswith("\ufeff"))
    while (match := cell.match(record, position)) is not None:
        spans.append(match.span())
        position = match.end() + 1
        if record[match.end() : position] != delimiter:
            break
    return spans if match is not None else [*spans, (position, position)]


@cache
def _cell(delimiter: str, *, quoted: bool) -> re.Pattern[str]:
    plain = rf"[^{re.escape(delimiter)}\r\n]*+"
    return re.compile(rf"{_QUOTED}|(?!\"){plain}" if quoted else plain)


@cache
def _record(delimiter: str) -> re.Pattern[str]:
    """Pattern of a record of CSV with its line end."""
    cell = rf"(?:{_QUOTED}|(?!\"))[^{re.escape(delimiter)}\r\n]*+"
    return re.compile(rf"\ufeff?{possessive(cell + re.escape(delimiter))}{cell}(?:\r?\n|\r(?=[^\n]))")
