"""Word documents: the text of the paragraphs in the XML parts of a zip archive; all other members are copied."""

from __future__ import annotations

import io
import re
import shutil
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path

from mtkit.documents.markup import escape_xml, unescape_xml
from mtkit.documents.reading import WholeText
from mtkit.documents.unit import MarkedBuilder, TextUnit, has_words
from mtkit.errors import DataError

PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
MAX_PART = 1 << 26  # bytes of a part without compression
MAX_SIZE = 1 << 30  # of all members
_COPY = 1 << 20
_TOKEN = re.compile(
    r"<w:t(?:\s[^<>]*)?>(?P<text>[^<]*)</w:t>"
    r"|</?(?:w:p|w:br|w:cr|w:tab|w:tc|w:txbxContent|mc:AlternateContent|mc:Choice|mc:Fallback)(?=[\s/>])"
)
_RUN = re.compile(r"<w:r(?:\s[^<>]*)?>\s*(?P<format><w:rPr>.*?</w:rPr>)?", re.DOTALL)
_PRESERVE = '<w:t xml:space="preserve">'


class DocxPart(WholeText):
    """The XML of a part of a Word document."""

    is_xml = has_references = True

    def units(self, stretch: str) -> list[TextUnit]:
        """The texts of paragraphs, between tabs and line breaks."""
        return [unit for texts in _paragraphs(stretch) if (unit := _unit(stretch, texts)) is not None]


def _paragraphs(xml: str) -> Iterator[list[tuple[int, int]]]:
    """The `w:t` elements of each text, (start, end)."""
    texts: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(xml):
        if match["text"] is not None:
            texts.append(match.span())
        elif texts:
            yield texts
            texts = []
    if texts:
        yield texts


def _unit(xml: str, texts: list[tuple[int, int]]) -> TextUnit | None:
    """One text: what lies between two `w:t` elements is a mark, and a change of the format and back is a pair."""
    contents = [unescape_xml(xml[start:end].partition(">")[2].rpartition("<")[0]) for start, end in texts]
    if not has_words("".join(contents)):
        return None
    formats = [_format(xml, start) for start, _ in texts]
    lengths: Counter[str] = Counter()
    for text, form in zip(contents, formats, strict=True):
        lengths[form] += len(text)
    base = lengths.most_common(1)[0][0]
    builder = MarkedBuilder()
    builder.add(contents[0])
    for index in range(1, len(texts)):
        raw = f"</w:t>{xml[texts[index - 1][1] : texts[index][0]]}{_PRESERVE}"
        before, after = (formats[i] == base for i in (index - 1, index))
        if before and not after:
            builder.open("", raw)
        elif after and not before:
            builder.close("", raw)
        else:
            builder.empty(raw)
        builder.add(contents[index])
    source, tags = builder.build()
    return TextUnit(
        start=texts[0][0],
        end=texts[-1][1],
        source=source,
        tags=tags,
        escape=escape_xml,
        ordered=True,
        before=_PRESERVE,
        after="</w:t>",
    )


def _format(xml: str, text_start: int) -> str:
    """The properties of the run that a text is in."""
    start = max(xml.rfind("<w:r>", 0, text_start), xml.rfind("<w:r ", 0, text_start))
    run = _RUN.match(xml, start) if start >= 0 else None
    return "" if run is None else run["format"] or ""


@contextmanager
def open_docx(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a Word document.

    Raises:
        DataError: it is no Word document, is damaged or encrypted, or its content is too large.
    """
    try:
        with _checked(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise DataError(f"{path}: the archive is damaged: {error}") from error


def _checked(path: Path) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError, ValueError) as error:
        raise DataError(f"{path}: not a Word document, which is a zip archive; save it as .docx") from error
    infos = archive.infolist()
    parts = [info for info in infos if PARTS.fullmatch(info.filename)]
    reason = None
    if "word/document.xml" not in [info.filename for info in parts]:
        reason = "a zip archive without word/document.xml, so no Word document; is the name right?"
    elif any(info.flag_bits & 1 for info in infos):
        reason = "encrypted; save it without a password"
    elif len({info.filename for info in infos}) < len(infos):
        reason = "two members of the archive have the same name; save the document again"
    elif any(info.file_size > MAX_PART for info in parts) or sum(info.file_size for info in infos) > MAX_SIZE:
        reason = (
            f"content of more than {MAX_PART >> 20} MiB of text or {MAX_SIZE >> 30} GiB in all; is this a zip bomb?"
        )
    if reason is not None:
        archive.close()
        raise DataError(f"{path}: {reason}")
    return archive


def copy_docx(archive: zipfile.ZipFile, output: Path, texts: dict[str, bytes]) -> None:
    """Write the members of an archive in their order, with these parts replaced, in bounded memory."""
    with zipfile.ZipFile(output, "w") as copied:
        copied.comment = archive.comment
        for info in archive.infolist():
            with copied.open(copy(info), "w") as target, archive.open(info) as source:
                shutil.copyfileobj(
                    io.BytesIO(texts[info.filename]) if info.filename in texts else source, target, _COPY
                )
