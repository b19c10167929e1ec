"""Formats of documents by the ends of their names, and checks of what a file is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.documents.unit import DocumentFormat

SUFFIXES = (
    ".docx", ".html", ".htm", ".xhtml", ".md", ".markdown", ".srt", ".vtt", ".po", ".pot", ".xliff", ".xlf", ".tmx",
    ".csv", ".tsv", ".json",
)  # fmt: skip
_ROOTS = {".xliff": "xliff", ".xlf": "xliff", ".tmx": "tmx", ".docx": "document"}


def is_document(path: Path) -> bool:
    """Return whether the name of a file ends like that of a document."""
    return path.suffix.lower() in SUFFIXES


def format_of(path: Path, *, src_lang: str, tgt_lang: str, fields: Sequence[str] = ()) -> DocumentFormat:
    """The format of a document by its name.

    Args:
        path: the document.
        src_lang, tgt_lang: languages of TMX; of XLIFF the target language.
        fields: columns of a table or keys of JSON; none: all.

    Raises:
        UsageError: the name is of no document, or has no fields.
    """
    from mtkit.documents.formats.docx import DocxPart
    from mtkit.documents.formats.exchange import Tmx, Xliff
    from mtkit.documents.formats.gettext import Gettext
    from mtkit.documents.formats.html import Html
    from mtkit.documents.formats.json_values import JsonValues
    from mtkit.documents.formats.markdown import Markdown
    from mtkit.documents.formats.subtitles import Subtitles
    from mtkit.documents.formats.tables import TableFile

    suffix = path.suffix.lower()
    if fields and suffix not in (".csv", ".tsv", ".json"):
        raise UsageError(f"{path}: --field names columns of CSV and TSV, or keys of JSON; omit it")
    if suffix in (".html", ".htm", ".xhtml"):
        return Html()
    if suffix in (".md", ".markdown"):
        return Markdown()
    if suffix in (".srt", ".vtt"):
        return Subtitles(is_vtt=suffix == ".vtt")
    if suffix in (".po", ".pot"):
        return Gettext()
    if suffix in (".xliff", ".xlf"):
        return Xliff(tgt_lang)
    if suffix == ".tmx":
        return Tmx(src_lang, tgt_lang)
    if suffix in (".csv", ".tsv"):
        return TableFile(quoted=suffix == ".csv", columns=fields)
    if suffix == ".json":
        return JsonValues(keys=fields)
    if suffix == ".docx":
        return DocxPart()
    raise UsageError(f"{path}: not the name of a document; the names end with {', '.join(SUFFIXES)}")


def root_of(path: Path) -> str | None:
    """Name of the outermost element of a format that is XML."""
    return _ROOTS.get(path.suffix.lower())
