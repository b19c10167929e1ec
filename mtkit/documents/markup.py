"""Tags of XML and HTML: finding them, text with inline marks, and the check of XML from others."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from xml.parsers import expat

from mtkit.documents.unit import MarkedBuilder


def possessive(alternatives: str) -> str:
    """Pattern of a repeated group that never gives back what it matched.

    Before Python 3.11.5 a possessive repeat matches wrongly if its group looks ahead or repeats something itself
    (https://github.com/python/cpython/issues/100061 and 106052). An atomic group does not, but takes about 250 bytes a
    repetition.
    """
    return f"(?:{alternatives})*+" if sys.version_info >= (3, 11, 5) else f"(?>(?:{alternatives})*)"


ATTRIBUTES = possessive(r"""[^<>"']|"[^"]*"|'[^']*'""")
TAG = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[(?P<cdata>.*?)(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)"
    rf"|<!{ATTRIBUTES}>|<(?P<close>/?)(?:(?P<prefix>[\w.-]+):)?(?P<name>[A-Za-z_][\w.-]*){ATTRIBUTES}>",
    re.DOTALL,
)
_S = " \\t\\r\\n\\f"  # white space of HTML, in a pattern
_VALUE = rf"""(?:"[^"]*"|'[^']*'|[^{_S}>"'][^{_S}>]*)"""
HTML_ATTRIBUTE = re.compile(rf"([^{_S}/>][^{_S}/>=]*)(?:[{_S}]*=[{_S}]*({_VALUE}))?")
# HTML is read as browsers read it: a value needs no quotes, and all instructions except those of PHP end at `>`
_HTML_ATTRIBUTES = possessive(rf"[{_S}]|/(?!>)|[^{_S}/>][^{_S}/>=]*(?:[{_S}]*=[{_S}]*{_VALUE})?")
_HTML_TAG = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))|<!\[CDATA\[.*?(?:\]\]>|\Z)|<![^>]*(?:>|\Z)"
    r"|<\?(?!php\b)[A-Za-z][^>]*(?:>|\Z)|<\?.*?(?:\?>|\Z)"
    rf"|<(?P<close>/?)(?P<name>[A-Za-z][^{_S}/>]*)(?P<attributes>{_HTML_ATTRIBUTES})(?P<slash>/?)(?P<end>>?)",
    re.DOTALL,
)
_RAW_TEXT = frozenset({"script", "style", "textarea", "title", "xmp"})  # no tags inside, to the first end tag
_SCRIPT_TAG = re.compile(rf"<!(?=--)|-->|<(?P<close>/?)script(?=[{_S}/>])", re.IGNORECASE | re.ASCII)
_XML_ENTITIES = {"lt": "<", "gt": ">", "quot": '"', "apos": "'", "amp": "&"}
_XML_REFERENCES = tuple((f"&{name};", character) for name, character in _XML_ENTITIES.items())  # the ampersand last
_REFERENCE = re.compile(r"&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(\w+));")
_LINE_BREAK = re.compile(r"""\s(?:ctype=["']lb|subType=["']xlf:lb|(?:id|equiv)=["']LINE_BREAK)["']""")  # in XLIFF
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # that XML 1.0 cannot have


def content_before(tag: str) -> str:
    """Pattern of the content of an XML element up to a tag."""
    return possessive(rf"[^<]++|<!--.*?-->|<!\[CDATA\[.*?\]\]>|<(?!!|{tag})")


def unescape_xml(text: str) -> str:
    """The text with its references to characters replaced; others stay."""
    if text.count("&") == text.count("&amp;"):  # the most frequent one alone, or none
        return text.replace("&amp;", "&")
    if "&#" in text:
        return _REFERENCE.sub(_character, text)
    for reference, character in _XML_REFERENCES:
        text = text.replace(reference, character)
    return text


def _character(match: re.Match[str]) -> str:
    if match[3] is not None:
        return _XML_ENTITIES.get(match[3], match[0])
    code = int(match[1]) if match[1] is not None else int(match[2], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else match[0]


def escape_xml(text: str) -> str:
    """The text as XML and HTML write it; characters that XML cannot have are left out."""
    return _UNWRITABLE.sub("", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def attribute(tag: str, name: str) -> str | None:
    """Value of an attribute of a tag."""
    match = re.search(rf"""\s{name}\s*=\s*(?:"([^"]*)"|'([^']*)')""", tag, re.IGNORECASE)
    return None if match is None else unescape_xml(match[1] if match[1] is not None else match[2])


@dataclass(frozen=True)
class Element:
    """An element in a text: its offsets, and its start tag."""

    start: int
    content_start: int
    content_end: int
    end: int
    tag: str


def element_at(text: str, match: re.Match[str]) -> Element:
    """The element that begins with this start tag; one without an end ends with the text."""
    name, depth = match["name"], 1
    if match[0].endswith("/>"):
        return Element(match.start(), match.end(), match.end(), match.end(), match[0])
    for tag in TAG.finditer(text, match.end()):
        if (tag["name"] or "").lower() != name.lower() or tag[0].endswith("/>"):
            continue
        depth += -1 if tag["close"] else 1
        if not depth:
            return Element(match.start(), match.end(), tag.start(), tag.end(), match[0])
    return Element(match.start(), match.end(), len(text), len(text), match[0])


def elements(text: str, name: str, start: int = 0, end: int | None = None) -> Iterator[Element]:
    """The elements of a name in a part of a text, outer ones only, in order."""
    position = start
    while (match := TAG.search(text, position, len(text) if end is None else end)) is not None:
        position = match.end()
        if match["name"] == name and not match["close"]:
            element = element_at(text, match)
            yield element
            position = element.end


def marked_content(text: str, builder: MarkedBuilder, pairs: Callable[[re.Match[str]], bool]) -> None:
    """Add the content of an XML element to a text with marks.

    Args:
        text: the content.
        builder: receives it.
        pairs: whether the text between a start tag and its end tag is text of the document; if not, the whole element
            is one empty mark.
    """
    position = 0
    while (match := TAG.search(text, position)) is not None:
        builder.add(unescape_xml(text[position : match.start()]))
        position = match.end()
        if match["cdata"] is not None:
            builder.add(match["cdata"])
        elif match["name"] is None:
            builder.empty(match[0])
        elif match[0].endswith("/>") or not pairs(match):
            position = element_at(text, match).end
            raw = text[match.start() : position]
            key = next((value for name in ("i", "rid", "startRef", "id") if (value := attribute(match[0], name))), "")
            if match["name"] in ("bpt", "bx", "sc", "sm"):  # the first half of a pair
                builder.open(f"{match['name'][0]} {key}", raw)
            elif match["name"] in ("ept", "ex", "ec", "em"):
                builder.close(f"{'s' if match['name'] in ('ec', 'em') else 'b'} {key}", raw)
            else:
                is_apart = not builder.last.strip() or not text[position : position + 1].strip()
                is_break = not is_apart and _LINE_BREAK.search(match[0]) is not None  # a space between two words
                builder.add(" " * is_break)
                builder.empty(raw, is_break=is_break)
        elif match["close"]:
            builder.close(match["name"], match[0])
        else:
            builder.open(match["name"], match[0])
    builder.add(unescape_xml(text[position:]))


def html_tags(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """The tags, comments and declarations in a part of a text that is HTML, in order.

    Groups of a match are name, close (a slash if it is an end tag), attributes and slash (of `<br/>`). What looks like
    a tag inside a script or other raw text is none.
    """
    raw_text, position = set(_RAW_TEXT), start
    while (tag := _HTML_TAG.search(text, position, end)) is not None and tag["end"] != "":
        yield tag
        position, name = tag.end(), (tag["name"] or "").lower()
        if name not in raw_text or tag["close"] or tag["slash"]:
            continue
        content_end = _raw_text_end(text, name, position, end)
        if content_end is None and name == "title":
            raw_text.remove(name)  # its text is translated, which must not become that of the whole page
        else:
            position = end if content_end is None else content_end


def _raw_text_end(text: str, name: str, start: int, end: int) -> int | None:
    """Offset of the end tag of a raw text that begins at `start`; None if it has none.

    A comment inside a script may have another script, whose end tag is not that of the first.
    """
    if name != "script":
        end_tag = re.compile(rf"</{name}(?=[{_S}/>])", re.IGNORECASE | re.ASCII)
        match = end_tag.search(text, start, end)
        return None if match is None else match.start()
    in_comment = in_script = False
    for tag in _SCRIPT_TAG.finditer(text, start, end):
        if tag["close"] is None:
            in_comment, in_script = tag[0] == "<!", in_script and tag[0] == "<!"
        elif not tag["close"]:
            in_script = in_comment
        elif not in_script:
            return tag.start()
        else:
            in_script = False
    return None


def html_attributes(tag: re.Match[str]) -> dict[str, str]:
    """Attributes of a tag of HTML by their names in lower case; one without a value has an empty one."""
    attributes: dict[str, str] = {}
    for match in HTML_ATTRIBUTE.finditer(tag["attributes"] or ""):
        value = match[2] or ""
        attributes.setdefault(match[1].lower(), html.unescape(value[1:-1] if value[:1] in ("'", '"') else value))
    return attributes


class XmlError(Exception):
    """Text that is not XML, or XML that declares entities.

    Args:
        line: number of the line.
        reason: what is wrong.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class XmlCheck:
    """Checks that a text which comes in chunks is well-formed XML without entities of its own; nothing is fetched.

    Args:
        encoding: of chunks of bytes; None: that of a byte order mark or of the XML declaration. Texts are UTF-8.
        element: receives name and attributes of each element inside the outermost one.
    """

    def __init__(
        self, encoding: str | None = "utf-8", element: Callable[[str, Mapping[str, str]], None] | None = None
    ) -> None:
        self._element = element
        self._parser = expat.ParserCreate(encoding)
        self._parser.EntityDeclHandler = self._refuse
        self._parser.StartElementHandler = self._start
        self.root: str | None = None  # name of the outermost element

    def feed(self, chunk: str | bytes, *, is_last: bool = False) -> None:
        """Take the next chunk.

        Raises:
            XmlError: what came up to here is not well-formed, or declares an entity.
        """
        try:
            self._parser.Parse(chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else chunk, is_last)
        except expat.ExpatError as error:
            raise XmlError(error.lineno, f"not well-formed XML: {expat.ErrorString(error.code)}") from error

    def _start(self, name: str, attributes: object) -> None:
        self.root = name.rpartition(":")[2]
        self._parser.StartElementHandler = self._element

    def _refuse(self, name: str, *declaration: object) -> None:
        reason = f"declares the entity {name[:60]}; documents with entities of their own are refused"
        raise XmlError(self._parser.CurrentLineNumber, reason)
