"""OpenDocument texts and presentations, as LibreOffice writes them: paragraphs and headings."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from mtkit.documents.archive import ZippedXml
from mtkit.documents.markup import TAG, Element, element_at, escape_xml, unescape_xml
from mtkit.documents.unit import MarkedBuilder, TextUnit, has_words, left_unit

_MEMBERS = ("content.xml", "styles.xml")  # styles have headers and footers
_PARAGRAPHS = frozenset({"p", "h"})
_PAIRS = frozenset({"span", "a", "meta", "meta-field", "ruby", "ruby-base"})  # whose content is text
_BREAKS = frozenset({"tab", "line-break"})  # that end a text
_PARAGRAPH = re.compile(r"<(?:[\w.-]+:)?[ph](?=[\s>])")
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
        return list(_units(stretch, 0, len(stretch)))


def _units(xml: str, start: int, end: int) -> Iterator[TextUnit]:
    position = start
    while (tag := TAG.search(xml, position, end)) is not None:
        position = tag.end()
        if tag["name"] in _PARAGRAPHS and not tag["close"]:
            paragraph = element_at(xml, tag)
            yield from _paragraph_units(xml, paragraph)
            position = paragraph.end


def _paragraph_units(xml: str, paragraph: Element) -> Iterator[TextUnit]:
    """The texts of a paragraph, which end at tabs, line breaks, and elements with paragraphs of their own.

    Such an element inside a sentence, as a note often is, is a mark of its text instead, and left as it is.
    """
    builder, begin = MarkedBuilder(), paragraph.content_start
    position, end = begin, paragraph.content_end
    opened: list[str] = []  # pairs around the position
    while (tag := TAG.search(xml, position, end)) is not None:
        builder.add(unescape_xml(xml[position : tag.start()]))
        position = tag.end()
        name = tag["name"] or ""
        if name in _PAIRS and not tag[0].endswith("/>"):
            if tag["close"]:
                builder.close(name, tag[0])
                opened = opened[:-1]
            else:
                builder.open(name, tag[0])
                opened.append(name)
            continue
        element = element_at(xml, tag) if name and not tag["close"] else None
        raw = tag[0] if element is None else xml[element.start : element.end]
        has_paragraphs = element is not None and _PARAGRAPH.search(raw) is not None
        is_end = (name in _BREAKS or has_paragraphs) and not opened
        if has_paragraphs and is_end and not _SENTENCE_END.search(builder.text):
            is_end = not has_words(re.sub("<[^<>]*>", "", xml[element.end : end])) if element is not None else is_end
        if element is not None:
            position = element.end
        if is_end:
            yield from builder.units(begin, tag.start(), escape=escape_xml)
            if element is not None and has_paragraphs:
                yield from _units(xml, element.content_start, element.content_end)
            builder, begin = MarkedBuilder(), position
        else:
            if has_paragraphs:
                yield left_unit("notes or frames inside a sentence")
            builder.empty(raw)
    builder.add(unescape_xml(xml[position:end]))
    yield from builder.units(begin, end, escape=escape_xml)
