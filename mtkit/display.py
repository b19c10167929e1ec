"""Text that people read on a terminal: counts and durations in sentences, tables, and no control characters.

A terminal obeys escape sequences in text: OSC 52 writes the clipboard, others move the cursor or change the title.
"""

from __future__ import annotations

import html
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

MAX_LINE = 1000  # characters of a line of a message; a sample of text is seldom longer
_KEPT = 100  # characters of a shortened line's end

# C0 without tab and newline, DEL, C1; line and paragraph separators; directional marks, embeddings, overrides and
# isolates (Unicode 16, UAX 9); tag characters, which are invisible; single surrogates, which no terminal can encode
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str, max_line: int = MAX_LINE) -> str:
    r"""Escape what a terminal would obey, as in `\x1b`, and shorten lines; line breaks are kept.

    Args:
        max_line: characters of a line that is not shortened; a longer one keeps both ends and states its length.
    """
    if len(text) > max_line:
        lines = text.split("\n")
        for number, line in enumerate(lines):
            if len(line) > max_line:
                lines[number] = f"{line[: max_line - _KEPT]}... ({len(line):,} characters) ...{line[-_KEPT:]}"
        text = "\n".join(lines)
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)


def in_current_folder(text: str) -> str:
    """A text with the paths in the current directory relative to it."""
    try:
        here = os.path.join(os.getcwd(), "")
    except FileNotFoundError:  # it was removed
        return text
    return text if len(here) == 1 else re.sub(rf"(?<![\w./-]){re.escape(here)}(?=[^\s:])", "", text)


def count_of(number: int, noun: str) -> str:
    """A number with its noun: "1 pair", "1,234 pairs"; the noun takes -s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """Format a duration in the largest unit of which it has at least two, or in seconds."""
    if seconds < 1:
        return "less than a second"
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return count_of(round(seconds), "second")


def about_duration(seconds: float) -> str:
    """A duration as an estimate: "about 3 hours", or "less than a second"."""
    return format_duration(seconds) if seconds < 1 else f"about {format_duration(seconds)}"


def format_clock(seconds: float) -> str:
    """Seconds as minutes or hours: 90 -> 1:30, 3700 -> 1:01:40."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_bytes(size: float) -> str:
    """Format a size in gigabytes or megabytes."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


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
        is_text = self._is_text()
        match form:
            case TableFormat.markdown:
                rules = ["---" if each else "---:" for each in is_text]
                rows = [
                    " | ".join(_escape(cell).replace("|", r"\|") for cell in row)
                    for row in (self.headings, rules, *self.rows)
                ]
                return [f"| {row} |" for row in rows]
            case TableFormat.latex:
                rows = []
                for row in (self.headings, *self.rows):
                    cells = ("".join(_LATEX.get(character, character) for character in _escape(cell)) for cell in row)
                    rows.append(rf"{' & '.join(cells)} \\")
                begin = rf"\begin{{tabular}}{{{''.join('l' if each else 'r' for each in is_text)}}}"
                return [begin, r"\hline", rf"{rows[0]} \hline", *rows[1:], r"\hline", r"\end{tabular}"]
            case TableFormat.tsv:
                return ["\t".join(_escape(cell) for cell in row) for row in (self.headings, *self.rows)]
        return list(self.lines(width))

    def html(self) -> str:
        """The table for a notebook."""
        rows = [("th", self.headings), *(("td", row) for row in self.rows)]
        cells = ("".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) for tag, row in rows)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"

    def records(self) -> list[dict[str, str]]:
        """Each row by heading, for JSON."""
        return [dict(zip(self.headings, row, strict=True)) for row in self.rows]

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Lines of text within `width` columns: text is folded; if numbers alone are too wide, each row is a list."""
        headings = [printable(heading) for heading in self.headings]
        rows = [[printable(_escape(cell)) for cell in row] for row in self.rows]
        widths = _fit(headings, rows, self._is_text(), width)
        if self.title is not None:
            yield printable(self.title)
        if widths is None:
            yield from _as_lists(headings, rows, width or 0)
            return
        yield from _as_columns([headings], widths, self._is_text())
        yield "─" * (sum(widths) + GAP * (len(widths) - 1))
        yield from _as_columns(rows, widths, self._is_text())

    def _is_text(self) -> list[bool]:
        return [heading in self.text for heading in self.headings]


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
    if is_text[0]:  # names are not broken, so that they can be copied
        least[0] = min(natural[0], max((columns_of(word) for cell in cells_of[0] for word in cell.split()), default=0))
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
