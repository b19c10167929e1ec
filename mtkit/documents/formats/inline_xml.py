"""A text with tags of XML, all of which are inside sentences."""

from __future__ import annotations

from mtkit.documents.format import DocumentFormat
from mtkit.documents.markup import escape_xml, marked_content
from mtkit.documents.unit import MarkedBuilder, TextUnit, has_words


class InlineXml(DocumentFormat):
    """A text whose tags are inline marks; the content of ignored ones stays as it is."""

    def __init__(self, ignored: frozenset[str] = frozenset()) -> None:
        """Take the names of elements that are not translated."""
        super().__init__()
        self._ignored = ignored

    def units(self, stretch: str) -> list[TextUnit]:
        """The whole text, if it has words."""
        builder = MarkedBuilder()
        marked_content(stretch, builder, lambda match: match["name"] not in self._ignored)
        source, tags = builder.build()
        if not has_words(source.text):
            return []
        breaks = frozenset(builder.breaks)
        return [TextUnit(start=0, end=len(stretch), source=source, tags=tags, breaks=breaks, escape=escape_xml)]
