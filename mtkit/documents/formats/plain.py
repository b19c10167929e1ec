"""Plain text: a text unit for each line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mtkit.documents.format import DocumentFormat
from mtkit.documents.reading import split_stretches
from mtkit.documents.unit import TextUnit, has_words
from mtkit.text.marked import Marked

_LINE_END = re.compile(r"\r\n?(?!\Z)|\n|\r\n")


class PlainText(DocumentFormat):
    """Text files as the server translates them; the command reads them line by line."""

    suffixes = (".txt", ".text")
    is_plain = True

    def stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """A line each."""
        return split_stretches(chunks, lambda text: (match.end() for match in _LINE_END.finditer(text)))

    def units(self, stretch: str) -> list[TextUnit]:
        """The line, if it has words."""
        start = int(stretch.startswith("\ufeff"))
        text = stretch[start:].rstrip("\r\n")
        return [TextUnit(start=start, end=start + len(text), source=Marked(text))] if has_words(text) else []
