"""HTML: text between the tags of blocks, with the tags of phrases as inline marks."""

from __future__ import annotations

import codecs
import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from mtkit.documents.format import XML_ENCODING, DocumentFormat
from mtkit.documents.markup import HTML_ATTRIBUTE, escape_xml, html_attributes, html_tags, marked_content
from mtkit.documents.reading import Survey, known_encoding
from mtkit.documents.unit import MarkedBuilder, TextUnit, has_words
from mtkit.text.marked import Marked


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# elements inside sentences
_PHRASES = _names("""
    a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label link mark meta nobr q rb rp rt
    ruby s samp small span strike strong sub sup svg math time tt u var wbr
""")
_NO_TEXT = _names("script style pre textarea svg math code kbd samp var xmp")  # whose content stays
VOID = _names("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr")
_ATTRIBUTES = _names("alt title placeholder aria-label aria-description aria-placeholder aria-roledescription")
_SPACE = " \t\r\n\f"
_SPACES = re.compile(f"[{_SPACE}]+")

# The categories of elements, and the rules by which they end, are those of https://html.spec.whatwg.org/#parsing
_ENDS_P = _names("""
    address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form header
    hgroup hr listing main menu nav ol p plaintext pre search section summary table ul xmp h1 h2 h3 h4 h5 h6
""")
_HEADINGS = _names("h1 h2 h3 h4 h5 h6")
_HEAD = _names("base basefont bgsound head link meta noframes noscript script style template title")
_TABLE = _names("caption colgroup tbody td tfoot th thead tr")
_FORMATTING = _names("a b big code em font i nobr s small strike strong tt u")
_OTHER_SPECIAL = _names("applet body button dd dt html iframe li marquee noembed object select textarea")
_SPECIAL = _ENDS_P | _TABLE | _HEAD | _OTHER_SPECIAL
# elements that begin and end sentences; other ones, such as buttons and unknown ones, do if no words are beside them
_BLOCKS = _SPECIAL - _PHRASES - _names("applet button object select") | _names(
    "audio br canvas legend optgroup option video"
)
_MAX_UNKNOWN = 20  # levels of such elements that are looked through
# a footnote mark or exponent: no letters up to the end tag, and none behind it
_FOOTNOTE = re.compile(r"(?:[^<>\w]|\d|</?[A-Za-z][^<>]{0,200}>){1,50}?</su[bp]\s*>(?!\w)", re.IGNORECASE)
_SCOPE = _names("applet caption html marquee object table td template th")  # no tag ends an element outside of these
_SELECT = _SCOPE | _names("select datalist")
_P = (_names("p"), _SCOPE | _names("button"))
_ITEM = _SPECIAL - _names("address div p")
_TABLE_SCOPE = _names("html table template")
_CELL = _names("caption colgroup td th")
# start tag: pairs of the elements that it ends without an end tag, and those outside of which it ends none
_IMPLIED: dict[str, tuple[tuple[Set[str], Set[str]], ...]] = {
    **dict.fromkeys(_ENDS_P, (_P,)),
    **dict.fromkeys(_HEADINGS, (_P, (_HEADINGS, _SPECIAL))),
    "li": ((_names("li"), _ITEM), _P),
    **dict.fromkeys(("dd", "dt"), ((_names("dd dt"), _ITEM), _P)),
    "option": ((_names("option"), _SELECT | _names("optgroup")),),
    "optgroup": ((_names("option optgroup"), _SELECT),),
    **dict.fromkeys(("rp", "rt"), ((_names("rb rp rt"), _SPECIAL | _names("ruby rtc")),)),
    **dict.fromkeys(("rb", "rtc"), ((_names("rb rp rt rtc"), _SPECIAL | _names("ruby")),)),
    "col": ((_names("caption"), _TABLE_SCOPE),),
    **dict.fromkeys(("td", "th"), ((_CELL, _TABLE_SCOPE),)),
    "tr": ((_CELL | _names("tr"), _TABLE_SCOPE),),
    **dict.fromkeys(("caption", "colgroup", "tbody", "tfoot", "thead"), ((_TABLE, _TABLE_SCOPE),)),
    **{name: ((_names(name), _SCOPE),) for name in ("a", "button", "nobr")},
}
_MAX_LEVELS = 512  # that a tag looks upwards, as in browsers, so that time is linear

_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s;"']+)""", re.IGNORECASE)
_HEAD_BYTES = 1 << 16  # in which the declaration of a page is looked for
# encodings as browsers read them (https://encoding.spec.whatwg.org/#names-and-labels): supersets of the older ones
_SUPERSETS = {
    **dict.fromkeys(("ascii", "iso8859-1"), "windows-1252"),
    "iso8859-9": "windows-1254",
    **dict.fromkeys(("iso8859-11", "tis-620", "windows-874"), "cp874"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **dict.fromkeys(("shift_jis", "windows-31j"), "cp932"),
    **dict.fromkeys(("euc_kr", "windows-949"), "cp949"),
    "big5": "big5hkscs",
    "iso-8859-8-i": "iso-8859-8",
    **dict.fromkeys(("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"), "utf-8"),  # a declaration in UTF-16 has NULs
}


class Html(DocumentFormat):
    """HTML pages and fragments."""

    suffixes: ClassVar[tuple[str, ...]] = (".html", ".htm", ".xhtml")
    has_references = True
    has_attributes = True

    def units(self, stretch: str) -> list[TextUnit]:
        """The runs of text and phrases between blocks, or the texts of attributes."""
        if self.options.attributes:
            return list(attribute_units(stretch, 0, len(stretch)))
        return list(html_units(stretch, 0, len(stretch)))

    def declared_encoding(self, head: bytes) -> str | None:
        """The encoding of the XML declaration, or of a `meta` element; None also for the placeholder of a template."""
        if (xml := XML_ENCODING.search(head)) is not None:
            return xml[1].decode("ascii")
        text = head[:_HEAD_BYTES].decode("latin-1")
        for tag in html_tags(text, 0, len(text)):
            name = (tag["name"] or "").lower()
            if name == "body":
                break
            if name != "meta":
                continue
            attributes = html_attributes(tag)
            charset = attributes.get("charset")
            if charset is None and attributes.get("http-equiv", "").lower() == "content-type":
                match = _CHARSET.search(attributes.get("content", ""))
                charset = None if match is None else match[1]
            if charset is not None:
                charset = charset.strip()
                return charset if re.fullmatch(r"[\w.:-]+", charset, re.ASCII) else None
        return None

    def choose_encoding(self, head: bytes, survey: Callable[[], Survey]) -> str:
        """The declared encoding as browsers read it.

        A page that declares another encoding may be UTF-8: it was converted, or its server declares UTF-8 in the
        header, which takes precedence. Text of another encoding is hardly ever valid UTF-8 by chance. The translation
        is then UTF-8 too, so that it can replace the page. A page of ASCII without a declaration stays ASCII, with
        references, since browsers take windows-1252 for it.
        """
        label = self.declared_encoding(head)
        if label is None:
            return "ascii" if survey().is_ascii else "utf-8"
        encoding = label.lower().removeprefix("x-")
        try:
            encoding = _SUPERSETS.get(encoding, encoding)
            encoding = _SUPERSETS.get(codecs.lookup(encoding).name, encoding)
            encoding = encoding if encoding == "utf-8" else known_encoding(encoding)
        except LookupError as error:
            raise LookupError(label) from error
        found = survey()
        return "utf-8" if found.is_utf8 and not found.is_ascii else encoding


def html_units(text: str, start: int, end: int) -> Iterator[TextUnit]:
    """The text units of a part of a text that is HTML."""
    run, position = _Run(text, start), start
    for tag, raw_end in _tags_and_excluded(text, start, end):
        run.pieces.append(_Piece(position, tag.start()))
        name = _local_name(tag)
        if name in _BLOCKS or not (name or tag[0].startswith("<!--")):
            yield from run.units(tag.start())
            run = _Run(text, raw_end)
        else:
            run.pieces.append(_Piece(tag.start(), raw_end, tag))
        position = raw_end
    run.pieces.append(_Piece(position, end))
    yield from run.units(end)


def _tags_and_excluded(text: str, start: int, end: int) -> Iterator[tuple[re.Match[str], int]]:
    """(tag, where it ends); an element that is not translated is its start tag, which ends with the element."""
    elements = _OpenElements()
    first: re.Match[str] | None = None  # start tag of an element that is not translated, until it ends
    excluded: _Element | None = None
    for tag in html_tags(text, start, end):
        opened = elements.add(tag)
        if excluded is not None and excluded.is_open:
            continue
        if first is not None and excluded is not None:
            is_own = bool(tag["close"]) and tag["name"].lower() == excluded.name
            yield first, tag.end() if is_own else tag.start()
            first = excluded = None
            if is_own:
                continue
        if opened is not None and is_excluded(tag):
            first, excluded = tag, opened
        else:
            yield tag, tag.end()
    if first is not None:
        yield first, end


def attribute_units(text: str, start: int, end: int) -> Iterator[TextUnit]:
    """The attributes that are read by people, of the tags in a part of a page."""
    for tag, tag_end in _tags_and_excluded(text, start, end):
        if tag_end != tag.end() or not tag["name"] or tag["close"]:
            continue
        shift = tag.start("attributes")
        for match in HTML_ATTRIBUTE.finditer(tag["attributes"]):
            value = match[2] or ""
            quote = value[:1] if value[:1] in ("'", '"') else ""
            source = html.unescape(value[1:-1] if quote else value)
            if match[1].lower() in _ATTRIBUTES and has_words(source):
                around = "" if quote else '"'
                yield TextUnit(
                    start=shift + match.start(2) + len(quote),
                    end=shift + match.end(2) - len(quote),
                    source=Marked(source),
                    escape=_escape_attribute,
                    before=around,
                    after=around,
                )


def _escape_attribute(text: str) -> str:
    return escape_xml(text).replace('"', "&quot;").replace("'", "&#39;")


def _local_name(tag: re.Match[str]) -> str:
    """Name of a tag without the prefix that XHTML may have; empty for comments and declarations."""
    return (tag["name"] or "").lower().rpartition(":")[2]


def element_end(tag: re.Match[str], end: int) -> int | None:
    """Offset behind the end tag of an element with this start tag, in a text up to `end`; None if it has none."""
    depth = 0
    for each in html_tags(tag.string, tag.start(), end):
        if _local_name(each) == _local_name(tag) and not each["slash"]:
            depth += -1 if each["close"] else 1
            if not depth:
                return each.end()
    return None


def add_tag(builder: MarkedBuilder, tag: re.Match[str], raw: str) -> None:
    """Add a tag of a phrase; `raw` is what the document has for it, with the content if that stays."""
    name = _local_name(tag)
    if not name or name in VOID or tag["slash"]:
        builder.empty(raw)
    elif tag["close"]:
        builder.close(f"<{name}", raw)
    elif is_excluded(tag):
        builder.opaque(raw)
    else:
        builder.open(f"<{name}", raw)


def is_excluded(tag: re.Match[str]) -> bool:
    """Return whether the content of an element with this start tag stays: code, footnote marks, `translate="no"`."""
    name = _local_name(tag)
    if name in _NO_TEXT or (name in ("sub", "sup") and _FOOTNOTE.match(tag.string, tag.end())):
        return True
    attributes = html_attributes(tag)
    return attributes.get("translate", "").lower() == "no" or "notranslate" in attributes.get("class", "").split()


@dataclass(eq=False)
class _Element:
    name: str
    is_open: bool = True


class _OpenElements:
    """The elements that are open at a tag of a page, of which many have no end tag."""

    def __init__(self) -> None:
        self._open: list[_Element] = []
        self._count: Counter[str] = Counter()  # of each name among them

    def add(self, tag: re.Match[str]) -> _Element | None:
        """Take the next tag of the page; return the element that it opens, unless that is empty.

        A slash makes any element empty, as in XHTML. Browsers ignore it in HTML, where it is a mistake.
        """
        name = (tag["name"] or "").lower()
        if tag["close"]:
            self._end(name)
        elif name:
            for ended, barriers in _IMPLIED.get(name, ()):
                while (index := self._find(ended, barriers)) is not None:
                    self._close(index, alone=name in _FORMATTING)
            if name not in _HEAD and self._open and self._open[-1].name == "head":
                self._close(len(self._open) - 1)
        if not name or tag["close"] or tag["slash"] or name in VOID:
            return None
        element = _Element(name)
        self._open.append(element)
        self._count[name] += 1
        return element

    def _end(self, name: str) -> None:
        """End the innermost element of a name, if this is an end tag of one."""
        barriers: Set[str] = _SCOPE  # elements that an end tag of this name does not leave
        if name == "p":
            barriers = _P[1]
        elif name == "li":
            barriers = _SCOPE | {"ol", "ul"}
        elif name in _TABLE or name == "table":
            barriers = _TABLE_SCOPE
        index = self._find(_HEADINGS if name in _HEADINGS else {name}, barriers)
        if index is not None:
            # formatting elements may overlap others; another phrase ends alone if a block inside it is open
            above = any(element.name in _SPECIAL for element in self._open[index + 1 :])
            self._close(index, alone=name in _FORMATTING or (above and name not in _SPECIAL))

    def _find(self, names: Set[str], barriers: Set[str]) -> int | None:
        """Index of the innermost open element of these names that is not outside of a barrier."""
        if not any(self._count[name] for name in names):
            return None
        for index in range(len(self._open) - 1, max(-1, len(self._open) - 1 - _MAX_LEVELS), -1):
            name = self._open[index].name
            if name in names:
                return index
            if name in barriers:
                return None
        return None

    def _close(self, index: int, *, alone: bool = False) -> None:
        """Close an element, and those inside unless it is closed alone."""
        end = index + 1 if alone else len(self._open)
        for element in self._open[index:end]:
            element.is_open = False
            self._count[element.name] -= 1
        del self._open[index:end]


class _Piece(NamedTuple):
    """A part of a run of text: text, or a tag, which ends with its element if the content of that stays."""

    start: int
    end: int
    tag: re.Match[str] | None = None


_Part = tuple[int, int, list[_Piece], int]  # start, end, pieces, and number of unknown elements around them


class _Run:
    """Text and tags between two blocks."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = start
        self.pieces: list[_Piece] = []

    def units(self, end: int) -> Iterator[TextUnit]:
        """The units of the run, which ends here."""
        runs: list[_Part] = [(self._start, end, self.pieces, 0)]
        while runs:
            start, end, pieces, depth = runs.pop()
            if parts := self._parts(start, end, pieces, depth):
                runs += reversed(parts)
            else:
                yield from self._unit(start, end, pieces)

    def _parts(self, start: int, end: int, pieces: list[_Piece], depth: int) -> list[_Part]:
        """The runs inside and between unknown elements without words beside them; none if there are such words."""
        parts: list[_Part] = []
        inside, last = 0, 0  # number of unknown elements that are open, and the piece that begins the part
        for index, (first, ended, tag) in enumerate(pieces):
            if tag is None:
                if not inside and has_words(html.unescape(self._text[first:ended])):
                    return []
            elif _local_name(tag) in _PHRASES or not tag["name"]:
                continue
            else:
                is_pair = ended == tag.end() and not tag["slash"] and _local_name(tag) not in VOID
                change = 0 if not is_pair else -1 if tag["close"] else 1
                if min(inside, inside + change) <= 0 or depth == _MAX_UNKNOWN:
                    parts.append((start, first, pieces[last:index], depth + 1))
                    start, last = ended, index + 1
                inside = max(0, inside + change)
        return [*parts, (start, end, pieces[last:], depth + 1)] if parts else []

    def _unit(self, start: int, end: int, pieces: list[_Piece]) -> Iterator[TextUnit]:
        """The unit of these pieces; white space is one space, and none at the beginning."""
        builder, text = MarkedBuilder(collapse=True), self._text
        begin = start
        for first, ended, tag in pieces:
            raw = text[first:ended]
            if tag is not None:
                add_tag(builder, tag, raw)
                continue
            if not builder.last and first == begin:  # the unit begins after white space that is before all tags
                start += len(raw) - len(raw.lstrip(_SPACE))
            builder.add(_SPACES.sub(" ", html.unescape(raw)))
        if not has_words(builder.text):
            return
        raw = text[start:end]
        trailing = len(raw) - len(raw.rstrip(_SPACE))
        source, tags = builder.build()
        without = source.text.rstrip(" ")
        if trailing and all(mark.offset <= len(without) for mark in source.marks):
            source = Marked(without, source.marks)
        yield TextUnit(start=start, end=end - trailing, source=source, tags=tags, escape=escape_xml)


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
        return builder.units(0, len(stretch), escape=escape_xml)
