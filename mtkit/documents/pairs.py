"""Pairs of source and target, streamed from the formats that have both sides; memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mtkit.documents.format import format_of, suffixes
from mtkit.documents.reading import DocumentSource, Report, ignore
from mtkit.errors import UsageError
from mtkit.io.files import require_regular_file, translate_read_errors
from mtkit.text.marked import Marked


@dataclass(frozen=True)
class MarkedPair:
    """A source and its translation.

    Attributes:
        src, tgt: the texts with their inline marks.
        line: number of the line of the file where their stretch begins, or row of a workbook.
    """

    src: Marked
    tgt: Marked
    line: int


def read_pairs(
    path: Path, *, src_lang: str, tgt_lang: str, encoding: str | None = None, report: Report = ignore
) -> Iterator[MarkedPair]:
    """The pairs of a file; sources without a translation, and fuzzy ones of PO, are left out.

    Args:
        path: a document of a format with pairs; of tables the first two columns are read.
        src_lang, tgt_lang: languages of TMX; en is also en-GB.
        encoding: of the file; None: as it declares.
        report: receives the sentence that an encoding was guessed.

    Raises:
        UsageError: the format has no pairs, or the encoding is unknown.
        DataError: the file is not of its format, or cannot be decoded.
        MissingInputError, ReadWriteError: it cannot be read.
        MissingExtraError: a package that reads the format is not installed.
    """
    form = format_of(path, src_lang=src_lang, tgt_lang=tgt_lang, encoding=encoding)
    if not form.has_pairs:
        known = ", ".join(suffixes(lambda each: each.has_pairs))
        raise UsageError(f"{path}: has texts, but no pairs; the names of files with pairs end with {known}")
    require_regular_file(path)
    with translate_read_errors(path):
        if (rows := form.file_pairs(path)) is not None:
            yield from (MarkedPair(Marked(src), Marked(tgt), line) for line, src, tgt in rows)
            return
        with path.open("rb") as file:
            source = DocumentSource(file, str(path), form, form.root, report)
            for line, _, pairs in source.read(lambda stretch: list(form.pairs(stretch))):
                yield from (MarkedPair(src, tgt, line) for src, tgt in pairs)
