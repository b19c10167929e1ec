"""HTML: text between the tags of blocks, with the tags of phrases as inline marks."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from mtkit.documents.markup import TAG, attribute, element_at, escape_xml
from mtkit.documents.reading import WholeText
from mtkit.documents.unit import MarkedBuilder, TextUnit, has_words
from mtkit.text.structure.marked import Marked


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# elements inside sentences; all others begin and end one
_PHRASES = _names("""
    a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark nobr q rb rp rt ruby s
    samp small span strike strong sub sup svg math time tt u var wbr
""")
_NO_TEXT = _names("script style pre textarea svg math code kbd samp var")  # whose content stays
_VOID = _names("area base br col embed hr img input link meta source track wbr")
_SPACE = " \t\r\n\f"
_SPACES = re.compile(f"[{_SPACE}]+")


class Html(WholeText):
    """HTML pages and fragments."""

    def units(self, stretch: str) -> list[TextUnit]:
        """The runs of text and phrases between blocks."""
        return list(html_units(stretch, 0, len(stretch)))


def html_units(text: str, start: int, end: int) -> Iterator[TextUnit]:
    """The text units of a part of a text that is HTML."""
    run, position = _Run(text, start), start
    while (match := TAG.search(text, position, end)) is not None:
        name, raw_end = (match["name"] or "").lower(), match.end()
        run.add(position, match.start())
        if not match["close"] and name and (name in _NO_TEXT or _is_excluded(match[0])) and name not in _VOID:
            raw_end = min(element_at(text, match).end, end)
        raw = text[match.start() : raw_end]
        if name in _PHRASES or raw.startswith("<!--"):
            run.tag(match, name, raw, is_pair=raw_end == match.end() and name not in _VOID and bool(name))
        else:
            yield from run.finish(match.start())
            run = _Run(text, raw_end)
        position = raw_end
    run.add(position, end)
    yield from run.finish(end)


def _is_excluded(tag: str) -> bool:
    classes = attribute(tag, "class") or ""
    return (attribute(tag, "translate") or "").lower() == "no" or "notranslate" in classes.split()


class _Run:
    """Text and phrases between two blocks."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = start
        self._builder = MarkedBuilder(collapse=True)

    def add(self, start: int, end: int) -> None:
        """Add text; white space is one space, and none at the beginning."""
        content = _SPACES.sub(" ", html.unescape(self._text[start:end]))
        before = self._builder.last
        self._builder.add(content)
        if not before:
            self._lead(start, end)

    def _lead(self, start: int, end: int) -> None:
        """Move the beginning of the unit after white space that is before all tags."""
        if start == self._start:
            raw = self._text[start:end]
            self._start += len(raw) - len(raw.lstrip(_SPACE))

    def tag(self, match: re.Match[str], name: str, raw: str, *, is_pair: bool) -> None:
        """Add the tag of a phrase, or a whole element whose content stays."""
        if not is_pair or raw.endswith("/>"):
            self._builder.empty(raw)
        elif match["close"]:
            self._builder.close(name, raw)
        else:
            self._builder.open(name, raw)

    def finish(self, end: int) -> Iterator[TextUnit]:
        """The unit of the run, which ends here."""
        if not has_words(self._builder.text):
            return
        raw = self._text[self._start : end]
        trailing = len(raw) - len(raw.rstrip(_SPACE))
        source, tags = self._builder.build()
        text = source.text.rstrip(" ")
        if trailing and all(mark.offset <= len(text) for mark in source.marks):
            source = Marked(text, source.marks)
        yield TextUnit(start=self._start, end=end - trailing, source=source, tags=tags, escape=escape_xml)
