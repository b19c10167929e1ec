"""Documents of Microsoft Office: Word, PowerPoint and Excel, in the XML parts of a zip archive."""

from __future__ import annotations

import itertools
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path
from typing import ClassVar, NamedTuple

from mtkit.documents.archive import ZippedXml, member_elements, related_members, typed_members
from mtkit.documents.markup import escape_xml, possessive, unescape_xml
from mtkit.documents.unit import MarkedBuilder, TextUnit, left_unit

_WORD_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
_WORD_TYPES = ("/header", "/footer", "/footnotes", "/endnotes")  # ends of the types of relationships to other parts
_NAMES_OF_LANGUAGE = re.compile(r"""\s(?:lang|altLang|dirty|err|smtClean)\s*=\s*"[^"]*\"""")
_NAMED = {"tableColumn": "name", "cacheField": "name"}  # elements of Excel whose attribute is the text of a cell


class _Text(NamedTuple):
    """The element `w:t` of a text, by whatever prefix: its place, its name, its content, the format of its run."""

    start: int
    end: int
    tag: str
    content: str
    format: str


class _Office(ZippedXml):
    """Texts of runs (`r` with their format `rPr` and text `t`), which are one text up to one of some tags.

    Attributes:
        namespaces: pattern of the names of the namespace of runs.
        prefix: of the namespace in a part that does not declare it.
        ends: pattern of the names in the namespace of the tags that end a text.
        space: attribute of a text, by which its spaces stay.
        kept: pattern of elements whose texts stay.
    """

    namespaces: ClassVar[str]
    prefix: ClassVar[str]
    ends: ClassVar[str]
    space: ClassVar[str] = ' xml:space="preserve"'
    kept: ClassVar[str] = ""

    def units(self, stretch: str) -> list[TextUnit]:
        """The texts of paragraphs, between tabs and line breaks."""
        return [unit for texts in self._texts(stretch) for unit in self._units(stretch, texts)]

    def _texts(self, xml: str) -> Iterator[list[_Text]]:
        """The elements of each text."""
        declared = re.findall(rf"""\sxmlns(?::([\w.-]+))?\s*=\s*["'](?:{self.namespaces})["']""", xml)
        of_namespace = {f"{re.escape(prefix)}:" if prefix else "" for prefix in declared} or {self.prefix}
        prefixes = f"(?:{'|'.join(sorted(of_namespace))})"
        content = possessive(r"[^<]++|<(?!/(?P=kept)[\s>])")
        kept = rf"(?P<kept>{prefixes}(?:{self.kept}))(?=[\s>]){content}"
        token = re.compile(  # a kept element, a text, a hyphen, the beginning of a run, or a tag that ends a text
            rf"<{kept if self.kept else '(?P<kept>(?!))'}"
            rf"|<(?P<tag>{prefixes}t)(?:\s[^<>]*)?>(?P<text>[^<]*)</{prefixes}t\s*>"
            rf"|<(?P<prefix>{prefixes})noBreakHyphen\s*(?:/>|></(?P=prefix)noBreakHyphen\s*>)"
            rf"|<(?P<run>{prefixes}r)(?:\s[^<>]*)?>\s*(?P<format><{prefixes}rPr(?:\s[^<>]*)?(?:/>|(?<!/)>(?:[^<]++|"
            rf"<(?!{prefixes}r[\s>]))*?</{prefixes}rPr>))?"
            rf"|</?(?:{prefixes}(?:{self.ends})|(?:[\w.-]+:)?(?:AlternateContent|Choice|Fallback))(?=[\s/>])"
        )
        texts: list[_Text] = []
        form = ""
        for match in token.finditer(xml):
            if match["kept"] is not None:
                continue
            if match["run"] is not None:
                form = _NAMES_OF_LANGUAGE.sub("", match["format"] or "")
            elif match["tag"] is not None:
                texts.append(_Text(*match.span(), match["tag"], unescape_xml(match["text"]), form))
            elif match["prefix"] is not None:
                texts.append(_Text(*match.span(), f"{match['prefix']}t", "\u2011", form))
            elif texts:
                yield texts
                texts = []
        if texts:
            yield texts

    def _units(self, xml: str, texts: list[_Text]) -> list[TextUnit]:
        """One text: what lies between two `w:t` elements is a mark, and a change of the format and back is a pair."""
        lengths: Counter[str] = Counter()
        for text in texts:
            lengths[text.format] += len(text.content)
        base = lengths.most_common(1)[0][0]
        builder = MarkedBuilder()
        builder.add(texts[0].content)
        for previous, text in itertools.pairwise(texts):
            raw = f"</{previous.tag}>{xml[previous.end : text.start]}{self._start_tag(text)}"
            was_base, is_base = previous.format == base, text.format == base
            if was_base and not is_base:
                builder.open("", raw)
            elif is_base and not was_base:
                builder.close("", raw)
            else:
                builder.empty(raw)
            builder.add(text.content)
        before, after = self._start_tag(texts[0]), f"</{texts[-1].tag}>"
        return builder.units(texts[0].start, texts[-1].end, escape=escape_xml, ordered=True, before=before, after=after)

    def _start_tag(self, text: _Text) -> str:
        return f"<{text.tag}{self.space}>"


class Word(_Office):
    """Word documents."""

    suffixes = (".docx",)
    title = "Word document"
    namespaces = (
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main|http://purl.oclc.org/ooxml/wordprocessingml/main"
    )
    prefix = "w:"
    ends = "p|br|cr|tab|tc|txbxContent"

    def parts(self, path: Path, archive: zipfile.ZipFile) -> dict[str, str | None]:
        """The document, its headers, footers and notes."""
        main = next(related_members(path, archive, "", ("/officeDocument",)), "word/document.xml")
        others = {*related_members(path, archive, main, _WORD_TYPES)}
        names = [each for each in archive.namelist() if each == main or each in others or _WORD_PARTS.fullmatch(each)]
        if main not in names:
            raise self.no_document(path, main)
        return {name: "document" if name == main else None for name in names}


class PowerPoint(_Office):
    """PowerPoint presentations: slides with their notes, diagrams and the titles of charts; fields stay."""

    suffixes = (".pptx",)
    title = "PowerPoint presentation"
    namespaces = "http://schemas.openxmlformats.org/drawingml/2006/main|http://purl.oclc.org/ooxml/drawingml/main"
    prefix = "a:"
    ends = "p|br|tab|tc|txBody"
    space = ""
    kept = "fld"

    def parts(self, path: Path, archive: zipfile.ZipFile) -> dict[str, str | None]:
        """All parts with text of drawings."""
        types = ("slide+xml", "notesSlide+xml", "chart+xml", "diagramData+xml", "diagramDrawing+xml")
        if not (names := typed_members(path, archive, types)):
            raise self.no_document(path, "a slide")
        return dict.fromkeys(names)


class Excel(_Office):
    """The texts of the cells of Excel workbooks.

    Formulas, names of sheets and numbers stay, and so do the headers of tables and pivot tables, which Excel knows by
    their names.
    """

    title = "Excel workbook"
    namespaces = (
        "http://schemas.openxmlformats.org/spreadsheetml/2006/main|http://purl.oclc.org/ooxml/spreadsheetml/main"
    )
    prefix = ""
    ends = "si|is"
    kept = "rPh"
    _headers: Set[str] = frozenset()  # of tables

    def parts(self, path: Path, archive: zipfile.ZipFile) -> dict[str, str | None]:
        """The shared strings, and the sheets, which may have strings of their own."""
        named = typed_members(path, archive, ("table+xml", "pivotCacheDefinition+xml"))
        self._headers = {
            attributes.get(_NAMED[element], "")
            for name in named
            for element, attributes in member_elements(path, archive, name)
            if element in _NAMED
        }
        names = typed_members(path, archive, ("sharedStrings+xml", "worksheet+xml"))
        if not names:
            raise self.no_document(path, "a sheet")
        return dict.fromkeys(names)

    def _units(self, xml: str, texts: list[_Text]) -> list[TextUnit]:
        if "".join(text.content for text in texts) in self._headers:
            return [left_unit("headers of tables, which Excel knows by their names")]
        return super()._units(xml, texts)
