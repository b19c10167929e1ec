"""Tables in every form that mtkit prints: text that fits the terminal, Markdown, LaTeX, TSV, and JSON."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mtkit.io.printable import printable

GAP = 2  # spaces between columns
MIN_FOLDED = 12  # characters of a column whose cells are folded
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}


class TableFormat(StrEnum):
    """Forms of a printed table."""

    text = "text"
    json = "json"
    markdown = "markdown"
    latex = "latex"
    tsv = "tsv"


@dataclass(frozen=True)
class Table:
    """Cells under headings.

    Attributes:
        headings: one for each column.
        rows: cells, as many in each row as there are headings.
        text: the columns that hold text: left-aligned, and folded where the terminal is narrow. All others hold
            numbers: right-aligned, and never cut or folded.
        title: printed above; None: no title.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: Sequence[str] = ()
    title: str | None = None

    def format(self, form: TableFormat | None, width: int | None = None) -> list[str]:
        """Lines of the table in a form other than JSON, None: text; `width` in columns bounds text, None does not."""
        match form:
            case TableFormat.markdown:
                return list(self._markdown())
            case TableFormat.latex:
                return list(self._latex())
            case TableFormat.tsv:
                return ["\t".join(_escape(cell) for cell in row) for row in (self.headings, *self.rows)]
        return list(self.lines(width))

    def records(self) -> list[dict[str, str]]:
        """Each row by heading, for JSON."""
        return [dict(zip(self.headings, row, strict=True)) for row in self.rows]

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Lines of text within `width` columns: text is folded; if numbers alone are too wide, each row is a list."""
        title = [printable(self.title)] if self.title is not None else []
        headings = [printable(heading) for heading in self.headings]
        rows = [[printable(_escape(cell)) for cell in row] for row in self.rows]
        widths = _fit(headings, rows, self._is_text(), width)
        yield from title
        if widths is None:
            yield from _as_lists(headings, rows, width or 0)
            return
        yield from _as_columns([headings], widths, self._is_text())
        yield "─" * (sum(widths) + GAP * (len(widths) - 1))
        yield from _as_columns(rows, widths, self._is_text())

    def _is_text(self) -> list[bool]:
        return [heading in self.text for heading in self.headings]

    def _markdown(self) -> Iterator[str]:
        rules = ["---" if is_text else "---:" for is_text in self._is_text()]
        for row in (self.headings, rules, *self.rows):
            yield f"| {' | '.join(_escape(cell).replace('|', chr(92) + '|') for cell in row)} |"

    def _latex(self) -> Iterator[str]:
        yield rf"\begin{{tabular}}{{{''.join('l' if is_text else 'r' for is_text in self._is_text())}}}"
        yield r"\hline"
        for number, row in enumerate((self.headings, *self.rows)):
            cells = ("".join(_LATEX.get(character, character) for character in _escape(cell)) for cell in row)
            yield rf"{' & '.join(cells)} \\" + (r" \hline" if number == 0 else "")
        yield r"\hline"
        yield r"\end{tabular}"


def _escape(cell: str) -> str:
    """A cell in one line and one field: tabs and line breaks as escapes."""
    return cell.replace("\t", r"\t").replace("\n", r"\n")


def columns_of(text: str) -> int:
    """Columns of a terminal that a text takes: two for wide East Asian characters, none for combining ones."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def _fit(
    headings: Sequence[str], rows: Sequence[Sequence[str]], is_text: Sequence[bool], width: int | None
) -> list[int] | None:
    """Width of each column; None if the numbers do not fit. Headings of numbers may be folded at spaces."""
    natural = [max(map(columns_of, cells)) for cells in zip(headings, *rows, strict=True)]
    room = None if width is None else width - GAP * (len(headings) - 1)
    if room is None or sum(natural) <= room:
        return natural
    cells_of = list(zip(*rows, strict=True)) or [()] * len(headings)
    least = [
        min(wide, MIN_FOLDED) if text else max(map(columns_of, (*heading.split(), *cells)), default=0)
        for wide, heading, text, cells in zip(natural, headings, is_text, cells_of, strict=True)
    ]
    if sum(least) > room:
        return None
    for index in sorted(range(len(least)), key=lambda index: (not is_text[index], natural[index])):
        least[index] += min(natural[index] - least[index], room - sum(least))
    return least


def _as_columns(rows: Sequence[Sequence[str]], widths: Sequence[int], is_text: Sequence[bool]) -> Iterator[str]:
    for row in rows:
        folded = [fold(cell, width) for cell, width in zip(row, widths, strict=True)]
        for number in range(max(map(len, folded))):
            parts = [lines[number] if number < len(lines) else "" for lines in folded]
            padded = [
                part + " " * (width - columns_of(part)) if text else " " * (width - columns_of(part)) + part
                for part, width, text in zip(parts, widths, is_text, strict=True)
            ]
            yield (" " * GAP).join(padded).rstrip()


def _as_lists(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Each row below the other, a cell in each line after its heading; empty cells are left out."""
    indent = max(map(columns_of, headings)) + GAP
    for number, row in enumerate(rows):
        yield from [""] if number else []
        for heading, cell in zip(headings, row, strict=True):
            for part in fold(cell, max(width - indent, MIN_FOLDED)) if cell else ():
                yield f"{heading}{' ' * (indent - columns_of(heading))}{part}"
                heading = ""


def fold(text: str, width: int) -> list[str]:
    """The lines of a text, at most `width` columns each: broken at spaces, and inside words that are longer."""
    if columns_of(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if columns_of(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for character in word:
            if columns_of(lines[-1] + character) > width:
                lines.append("")
            lines[-1] += character
    return lines
