"""Java properties: the values. https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/Properties.html"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from mtkit.documents.format import DocumentFormat
from mtkit.documents.reading import Survey, split_stretches
from mtkit.documents.unit import TextUnit, has_words, joined_surrogates
from mtkit.text.marked import Marked

_END = r"(?:\r\n|[\r\n]|\Z)"
_BREAK = rf"\\(?:{_END})[ \t\f]*"  # a backslash before the end of a line continues it
_ENTRY = re.compile(
    rf"[ \t\f]*(?:[#!][^\r\n]*|(?P<key>(?:\\(?:\r\n|.)|[^\\\s:=])*)(?:{_BREAK}|[ \t\f])*[:=]?(?:{_BREAK}|[ \t\f])*"
    rf"(?P<value>(?:\\(?:\r\n|.)|[^\\\r\n])*+\\?)){_END}",
    re.DOTALL,
)
_ESCAPE = re.compile(rf"{_BREAK}|\\u(?P<code>[0-9a-fA-F]{{4}})|\\(?P<sign>.)|\\", re.DOTALL)
_SIGNS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_LINE_END = re.compile(r"(?<!\\)(?:\\\\)*+(?:\r\n|\r(?!\Z)|\n)")  # that continues no line
_MESSAGE = re.compile(r"\{\s*\d+\s*[,}]")  # of java.text.MessageFormat, in which an apostrophe is written twice


class JavaProperties(DocumentFormat):
    """Properties in UTF-8, or else in ISO 8859-1, as Java reads them; characters that a file lacks become escapes."""

    suffixes = (".properties",)

    def choose_encoding(self, head: bytes, survey: Callable[[], Survey]) -> str:
        """ASCII stays ASCII, since Java before version 9 reads no UTF-8."""
        return "ascii" if survey().is_ascii else "utf-8" if survey().is_utf8 else "iso-8859-1"

    def stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """An entry or a comment each."""
        return split_stretches(chunks, lambda text: (match.end() for match in _LINE_END.finditer(text)))

    def units(self, stretch: str) -> list[TextUnit]:
        """The value of the entry; a comment before it may end with a backslash."""
        return [unit for entry in _ENTRY.finditer(stretch.replace("\ufeff", " ", 1)) for unit in self._unit(entry)]

    def _unit(self, entry: re.Match[str]) -> Iterator[TextUnit]:
        text = joined_surrogates(_ESCAPE.sub(_character, entry["value"] or ""))
        if not has_words(text) or "\ufffd" in text:
            return
        is_message = _MESSAGE.search(text) is not None and "'" not in text.replace("''", "")
        source = Marked(text.replace("''", "'") if is_message else text)
        escape = partial(_escape, encoding=self.encoding, is_message=is_message)
        yield TextUnit(start=entry.start("value"), end=entry.end("value"), source=source, escape=escape)


def _character(match: re.Match[str]) -> str:
    if match["code"] is not None:
        return chr(int(match["code"], 16))
    return "" if match["sign"] is None else _SIGNS.get(match["sign"], match["sign"])


def _escape(text: str, encoding: str, *, is_message: bool) -> str:
    text = text.replace("\\", "\\\\")
    text = text.replace("'", "''") if is_message else text
    for letter, sign in _SIGNS.items():
        text = text.replace(sign, f"\\{letter}")
    text = f"\\{text}" if text.startswith(" ") else text  # the space would be none of the value
    try:
        text.encode(encoding)
    except UnicodeEncodeError:  # Java has the code units of UTF-16
        codes = memoryview(text.encode("utf-16-le")).cast("H")
        return "".join(chr(code) if code < 0x80 else f"\\u{code:04x}" for code in codes)
    return text
