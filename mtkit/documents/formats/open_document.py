"""OpenDocument texts and presentations, as LibreOffice writes them: paragraphs and headings."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from mtkit.documents.archive import ZippedXml
from mtkit.documents.markup import TAG, element_at, escape_xml, unescape_xml
from mtkit.documents.unit import MarkedBuilder, StretchError, TextUnit, left_unit

_MEMBERS = ("content.xml", "styles.xml")  # styles have headers and footers
_PARAGRAPHS = frozenset({"p", "h"})
_PAIRS = frozenset({"span", "a", "meta", "meta-field", "ruby", "ruby-base"})  # whose content is text
_BREAKS = frozenset({"tab", "line-break"})  # that end a text
_PARAGRAPH = re.compile(r"<(?:[\w.-]+:)?[ph](?=[\s>])")
_LETTER = re.compile(r"<[^<>]*>|([^\W\d_])")  # outside of tags
_TAIL = 40  # characters
_MAX_DEPTH = 50  # of paragraphs in paragraphs
_SENTENCE_END = re.compile(r"(?:\A|[.!?…。！？:;][\"'”’»)\]]*)\s*\Z")


class OpenDocument(ZippedXml):
    """Texts and presentations. https://docs.oasis-open.org/office/OpenDocument/v1.3/"""

    suffixes = (".odt", ".odp")
    title = "document in the OpenDocument format"

    def parts(self, path: Path, archive: zipfile.ZipFile) -> dict[str, str | None]:
        """Content and styles."""
        if _MEMBERS[0] not in archive.namelist():
            raise self.no_document(path, _MEMBERS[0])
        roots = ("document-content", "document-styles")
        return {name: root for name, root in zip(_MEMBERS, roots, strict=True) if name in archive.namelist()}

    def units(self, stretch: str) -> list[TextUnit]:
        """The texts of paragraphs and headings, and of those in frames and notes inside them."""
        return list(_units(stretch, 0, len(stretch), depth=0))


def _units(xml: str, start: int, end: int, *, depth: int) -> Iterator[TextUnit]:
    position = start
    while (tag := TAG.search(xml, position, end)) is not None:
        position = tag.end()
        if tag["name"] in _PARAGRAPHS and not tag["close"]:
            if depth > _MAX_DEPTH:
                raise StretchError(tag.start(), f"more than {_MAX_DEPTH} paragraphs inside each other")
            paragraph = element_at(xml, tag)
            yield from _paragraph_units(xml, paragraph.content_start, paragraph.content_end, depth=depth)
            position = paragraph.end


def _paragraph_units(xml: str, start: int, end: int, *, depth: int) -> Iterator[TextUnit]:
    """The texts of the content of a paragraph.

    They end at tabs, line breaks, and elements with paragraphs of their own, such as notes. Where one of these stands
    inside a sentence or a pair of tags, it is a mark of the text instead, and left as it is.
    """
    builder, begin, position = MarkedBuilder(), start, start
    tail = ""  # the last characters of the text, by which a sentence has ended
    num_opened = 0  # pairs around the position
    has_inner = _PARAGRAPH.search(xml, start, end) is not None
    letters = (each.end() for each in _LETTER.finditer(xml, start, end if has_inner else start) if each[1])
    last_letter = max(letters, default=start)
    while (tag := TAG.search(xml, position, end)) is not None:
        text = unescape_xml(xml[position : tag.start()])
        builder.add(text)
        tail = (tail + text)[-_TAIL:]
        position, name = tag.end(), tag["name"] or ""
        if name in _PAIRS and not tag[0].endswith("/>"):
            (builder.close if tag["close"] else builder.open)(name, tag[0])
            num_opened += -1 if tag["close"] else 1
            continue
        if name and not tag["close"]:
            position = element_at(xml, tag).end
        is_inner = has_inner and _PARAGRAPH.search(xml, tag.start(), position) is not None
        is_apart = is_inner and (_SENTENCE_END.search(tail) is not None or position >= last_letter)
        if not num_opened and (is_apart or name in _BREAKS):
            yield from builder.units(begin, tag.start(), escape=escape_xml)
            yield from _units(xml, tag.start(), position, depth=depth + 1)
            builder, begin, tail = MarkedBuilder(), position, ""
        else:
            if is_inner:
                yield left_unit("notes or frames inside a sentence")
            builder.empty(xml[tag.start() : position])
    builder.add(unescape_xml(xml[position:end]))
    yield from builder.units(begin, end, escape=escape_xml)
