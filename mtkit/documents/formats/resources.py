"""XML resources of applications: `strings.xml` of Android, and `.resx` of .NET."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mtkit.documents.format import DocumentFormat
from mtkit.documents.markup import TAG, Element, attribute, elements, escape_xml, marked_content, unescape_xml
from mtkit.documents.reading import element_stretches
from mtkit.documents.unit import MarkedBuilder, TextUnit, joined_surrogates, left_unit

_MARKUP = re.compile(  # of HTML, as escaped text
    r"<(?P<close>/?)(?P<name>[abipu]|br|div|em|font|h[1-6]|hr|img|li|ol|small|span|strong|su[bp]|tt|ul)"
    r"(?:\s[^<>]*?)?(?P<slash>/?)>",
    re.IGNORECASE,
)
_QUOTED = re.compile(r'((?:\\.|[^"\\])*)(?:"((?:\\.|[^"\\])*)(?:"|\Z))?', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SIGNS = {"n": "\n", "t": "\t"}
_REFERENCE = re.compile(r"\s*[@?][\w.:+/-]+\s*")  # to another resource, or to an attribute of a theme


class _Builder(MarkedBuilder):
    """A text whose escaped HTML has marks too."""

    def add(self, text: str) -> None:
        position = 0
        for tag in _MARKUP.finditer(text):
            self._add_plain(text[position : tag.start()])
            raw, position = escape_xml(tag[0]), tag.end()
            if tag["slash"] or tag["name"].lower() in ("br", "img", "hr"):
                self.empty(raw)
            elif tag["close"]:
                self.close(tag["name"], raw)
            else:
                self.open(tag["name"], raw)
        self._add_plain(text[position:])

    def _add_plain(self, text: str) -> None:
        super().add(text)


class _AndroidBuilder(_Builder):
    def _add_plain(self, text: str) -> None:
        """Outside of quotes, white space is one space; \\n and others are escapes."""
        pieces = []
        for match in _QUOTED.finditer(text):
            pieces += [re.sub(r"\s+", " ", match[1]), match[2] or ""]
        super()._add_plain(joined_surrogates(_ESCAPE.sub(_character, "".join(pieces))))


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else _SIGNS.get(match[2], match[2])


def _escape_android(text: str) -> str:
    text = re.sub(r"(['\"\\]|\A[@?])", r"\\\1", text)
    return escape_xml(text.replace("\n", "\\n").replace("\t", "\\t"))


class _Resources(DocumentFormat):
    is_xml = has_references = True
    names: tuple[str, ...]

    def stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """Resources with what precedes them, one each."""
        return element_stretches(chunks, self.names)


class AndroidStrings(_Resources):
    """Strings, arrays and plurals. https://developer.android.com/guide/topics/resources/string-resource"""

    suffixes = ("strings.xml", "arrays.xml", "plurals.xml")
    root = "resources"
    names = ("string", "string-array", "plurals")

    def units(self, stretch: str) -> list[TextUnit]:
        """The texts of the resource that ends the stretch."""
        units: list[TextUnit] = []
        for name in self.names:
            for resource in elements(stretch, name):
                items = elements(stretch, "item", resource.content_start, resource.content_end)
                for element in [resource] if name == "string" else items:
                    units += self._unit(stretch, element, resource.tag)
        return units

    def _unit(self, stretch: str, element: Element, tag: str) -> list[TextUnit]:
        content = stretch[element.content_start : element.content_end]
        if attribute(tag, "translatable") == "false" or _REFERENCE.fullmatch(content):
            return [left_unit("not to be translated")]
        builder = _AndroidBuilder(collapse=True)
        marked_content(content, builder, lambda tag: tag["name"] != "g")  # xliff:g is kept with its content
        text = builder.text
        quote = '"' * (text != text.strip() or "  " in text)  # in which spaces stay
        return builder.units(
            element.content_start, element.content_end, escape=_escape_android, before=quote, after=quote
        )


class Resx(_Resources):
    """Strings of .NET; other data, such as sizes and images, have a type, and names of controls begin with `>>`."""

    suffixes = (".resx",)
    root = "root"
    names = ("data",)

    def units(self, stretch: str) -> list[TextUnit]:
        """The text of the data that end the stretch."""
        return [unit for each in elements(stretch, "data") for unit in self._units(stretch, each)]

    def _units(self, stretch: str, data: Element) -> Iterator[TextUnit]:
        is_typed = any(attribute(data.tag, name) is not None for name in ("type", "mimetype"))
        if is_typed or (attribute(data.tag, "name") or "").startswith(">>"):
            yield left_unit("not to be translated")
            return
        for value in elements(stretch, "value", data.content_start, data.content_end):
            start, end = value.content_start, value.content_end
            builder = _Builder()
            builder.add(_text(stretch[start:end]))
            yield from builder.units(start, end, escape=escape_xml)


def _text(content: str) -> str:
    """The text of an element without others inside."""
    pieces, position = [], 0
    for tag in TAG.finditer(content):
        pieces += [unescape_xml(content[position : tag.start()]), tag["cdata"] or ""]
        position = tag.end()
    return "".join([*pieces, unescape_xml(content[position:])])
