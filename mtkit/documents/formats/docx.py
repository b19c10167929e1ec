"""Word documents: the text of the paragraphs in the XML parts of a zip archive; all other members are copied."""

from __future__ import annotations

import itertools
import posixpath
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mtkit.documents.format import DocumentFormat
from mtkit.documents.markup import XmlCheck, XmlError, escape_xml, unescape_xml
from mtkit.documents.unit import MarkedBuilder, TextUnit
from mtkit.errors import DataError

_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
_PART_TYPES = ("/header", "/footer", "/footnotes", "/endnotes")  # ends of the types of relationships to other parts
MAX_PART = 1 << 26  # bytes of a part without compression
MAX_SIZE = 1 << 30  # of all members
_TOO_LARGE = f"content of more than {MAX_PART >> 20} MiB of text or {MAX_SIZE >> 30} GiB in all; is this a zip bomb?"
_NAMESPACE = re.compile(
    r"""\sxmlns(?::([\w.-]+))?\s*=\s*["']http://(?:schemas\.openxmlformats\.org/wordprocessingml/2006/main"""
    r"""|purl\.oclc\.org/ooxml/wordprocessingml/main)["']"""
)


class _Text(NamedTuple):
    """The element `w:t` of a text, by whatever prefix: its place, its name, its content, the format of its run."""

    start: int
    end: int
    tag: str
    content: str
    format: str


class DocxPart(DocumentFormat):
    """The XML of a part of a Word document."""

    suffixes = (".docx",)
    is_xml = has_references = is_archive = True

    @contextmanager
    def open_archive(self, path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, str | None]]]:
        """Open a Word document.

        Yields:
            The archive, and its parts with text in order, with the name of their outermost element if that is checked.

        Raises:
            DataError: it is no Word document, is damaged or encrypted, or its content is too large.
        """
        try:
            archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError, ValueError) as error:
            raise DataError(f"{path}: not a Word document, which is a zip archive; save it as .docx") from error
        try:
            with archive:
                yield archive, _checked_parts(path, archive)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise DataError(f"{path}: the archive is damaged: {error}") from error

    def units(self, stretch: str) -> list[TextUnit]:
        """The texts of paragraphs, between tabs and line breaks."""
        return [unit for texts in _paragraphs(stretch) for unit in _units(stretch, texts)]


def _paragraphs(xml: str) -> Iterator[list[_Text]]:
    """The elements of each text."""
    of_namespace = {f"{re.escape(prefix)}:" if prefix else "" for prefix in _NAMESPACE.findall(xml)} or {"w:"}
    prefixes = f"(?:{'|'.join(sorted(of_namespace))})"
    token = re.compile(  # a text, a hyphen, the beginning of a run with its format, or a tag that ends a text
        rf"<(?P<tag>{prefixes}t)(?:\s[^<>]*)?>(?P<text>[^<]*)</{prefixes}t\s*>"
        rf"|<(?P<prefix>{prefixes})noBreakHyphen\s*(?:/>|></(?P=prefix)noBreakHyphen\s*>)"
        rf"|<(?P<run>{prefixes}r)(?:\s[^<>]*)?>\s*(?P<format><{prefixes}rPr>(?:[^<]++|<(?!{prefixes}r[\s>]))*?"
        rf"</{prefixes}rPr>)?"
        rf"|</?(?:{prefixes}(?:p|br|cr|tab|tc|txbxContent)|(?:[\w.-]+:)?(?:AlternateContent|Choice|Fallback))(?=[\s/>])"
    )
    texts: list[_Text] = []
    form = ""
    for match in token.finditer(xml):
        if match["run"] is not None:
            form = match["format"] or ""
        elif match["tag"] is not None:
            texts.append(_Text(*match.span(), match["tag"], unescape_xml(match["text"]), form))
        elif match["prefix"] is not None:
            texts.append(_Text(*match.span(), f"{match['prefix']}t", "\u2011", form))
        elif texts:
            yield texts
            texts = []
    if texts:
        yield texts


def _units(xml: str, texts: list[_Text]) -> list[TextUnit]:
    """One text: what lies between two `w:t` elements is a mark, and a change of the format and back is a pair."""
    lengths: Counter[str] = Counter()
    for text in texts:
        lengths[text.format] += len(text.content)
    base = lengths.most_common(1)[0][0]
    builder = MarkedBuilder()
    builder.add(texts[0].content)
    for previous, text in itertools.pairwise(texts):
        raw = f"</{previous.tag}>{xml[previous.end : text.start]}{_start_tag(text)}"
        was_base, is_base = previous.format == base, text.format == base
        if was_base and not is_base:
            builder.open("", raw)
        elif is_base and not was_base:
            builder.close("", raw)
        else:
            builder.empty(raw)
        builder.add(text.content)
    before, after = _start_tag(texts[0]), f"</{texts[-1].tag}>"
    return builder.units(texts[0].start, texts[-1].end, escape=escape_xml, ordered=True, before=before, after=after)


def _start_tag(text: _Text) -> str:
    return f'<{text.tag} xml:space="preserve">'


def _checked_parts(path: Path, archive: zipfile.ZipFile) -> dict[str, str | None]:
    infos = {info.filename: info for info in archive.infolist()}
    reason = None
    if any(info.flag_bits & 1 for info in infos.values()):
        reason = "encrypted; save it without a password"
    elif len(infos) < len(archive.infolist()):
        reason = "two members of the archive have the same name; save the document again"
    elif sum(info.file_size for info in infos.values()) > MAX_SIZE:
        reason = _TOO_LARGE
    if reason is not None:
        raise DataError(f"{path}: {reason}")
    main = next(_related(path, archive, "", ("/officeDocument",)), "word/document.xml")
    others = {name for name in infos if _PARTS.fullmatch(name)} | {*_related(path, archive, main, _PART_TYPES)}
    parts = {name: "document" if name == main else None for name in infos if name == main or name in others}
    if main not in parts:
        raise DataError(f"{path}: a zip archive without {main}, so no Word document; is the name right?")
    if any(infos[name].file_size > MAX_PART for name in parts):
        raise DataError(f"{path}: {_TOO_LARGE}")
    return parts


def _related(path: Path, archive: zipfile.ZipFile, part: str, types: tuple[str, ...]) -> Iterator[str]:
    """The members that a part, or with an empty name the archive, has relationships of these types to."""
    folder, name = posixpath.split(part)
    source = posixpath.join(folder, "_rels", f"{name}.rels")
    names = {each.lower(): each for each in archive.namelist()}  # which are compared without case
    if source.lower() not in names:
        return
    if archive.getinfo(names[source.lower()]).file_size > MAX_PART:
        raise DataError(f"{path}: {_TOO_LARGE}")
    targets: list[str] = []

    def add(element: str, attributes: Mapping[str, str]) -> None:
        if attributes.get("Type", "").endswith(types) and attributes.get("TargetMode") != "External":
            targets.append(posixpath.normpath(posixpath.join("/", folder, attributes.get("Target", ""))).lstrip("/"))

    try:
        XmlCheck(None, add).feed(archive.read(names[source.lower()]), is_last=True)
    except XmlError as error:
        raise DataError(f"{path}: {source}:{error.line}: {error}") from error
    yield from (names.get(target.lower(), target) for target in targets)
