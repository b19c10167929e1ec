"""Pairs of source and target, streamed from TMX, XLIFF, PO, CSV and TSV; memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mtkit.documents.choose import format_of, root_of
from mtkit.documents.formats.exchange import Tmx, Xliff
from mtkit.documents.formats.gettext import Gettext
from mtkit.documents.formats.tables import TableFile
from mtkit.documents.source import DocumentSource
from mtkit.errors import UsageError
from mtkit.io.files import require_regular_file, translate_read_errors
from mtkit.text.structure.marked import Marked


@dataclass(frozen=True)
class MarkedPair:
    """A source and its translation.

    Attributes:
        src, tgt: the texts with their inline marks.
        line: number of the line of the file where their stretch begins.
    """

    src: Marked
    tgt: Marked
    line: int


def read_pairs(path: Path, *, src_lang: str, tgt_lang: str) -> Iterator[MarkedPair]:
    """The pairs of a file; sources without a translation, and fuzzy ones of PO, are left out.

    Args:
        path: a TMX, XLIFF, PO, CSV or TSV file; of tables the first two columns are read.
        src_lang, tgt_lang: languages of TMX; en is also en-GB.

    Raises:
        UsageError: the format has no pairs.
        DataError: the file is not of its format, or cannot be decoded.
        MissingInputError, ReadWriteError: it cannot be read.
    """
    form = format_of(path, src_lang=src_lang, tgt_lang=tgt_lang)
    if not isinstance(form, Tmx | Xliff | Gettext | TableFile):
        raise UsageError(f"{path}: has texts, but no pairs; give a TMX, XLIFF, PO, CSV or TSV file")
    require_regular_file(path)
    with translate_read_errors(path), path.open("rb") as file:
        for line, _, pairs in DocumentSource(file, str(path), form, root_of(path)).read(lambda s: list(form.pairs(s))):
            yield from (MarkedPair(src, tgt, line) for src, tgt in pairs)
