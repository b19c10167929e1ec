"""Readers of glossaries: CSV, TSV, TBX, and lists of words to keep.

A row of CSV or TSV is a source term and its translation; several allowed forms are separated by | or stand in further
columns, the preferred one first. A term without a translation, as each line of a .txt file, is not translated. Of TBX
(ISO 30042) the terms of both languages of each entry are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mtkit.errors import DataError
from mtkit.io.files import translate_read_errors
from mtkit.text.lines import read_lines

MAX_TBX_BYTES = 256 << 20
_HEADER = ("source", "src", "term")

Entries = Iterator[tuple[str, str, list[str]]]  # place, source term, allowed forms


def read_terms(path: Path, src_lang: str, tgt_lang: str) -> Entries:
    """The terms of a glossary.

    Raises:
        DataError: the file has another form; with file and line.
        MissingInputError, ReadWriteError: as `read_lines`.
    """
    read = {".csv": _rows, ".tsv": _rows, ".txt": _kept, ".tbx": _tbx}.get(path.suffix.lower())
    if read is None:
        raise DataError(f"{path}: a glossary is .csv, .tsv or .tbx, a list of words to keep .txt; rename it")
    return read(path, src_lang, tgt_lang)


def _kept(path: Path, src_lang: str, tgt_lang: str) -> Entries:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield f"{path}:{number}", line, []


def _rows(path: Path, src_lang: str, tgt_lang: str) -> Entries:
    is_tsv = path.suffix.lower() == ".tsv"
    first = next(read_lines(path), "")
    comma = "\t" if is_tsv else max(",;\t", key=first.count)
    for number, line in enumerate(read_lines(path), start=1):
        try:
            cells = [cell.strip() for cell in cells_of(line, comma, has_quotes=not is_tsv)]
        except DataError as error:
            raise DataError(f"{path}:{number}: {error}") from error
        is_header = number == 1 and (cells[:1] or [""])[0].casefold() in (*_HEADER, src_lang.casefold())
        if any(cells) and not is_header:
            yield f"{path}:{number}", cells[0], [form for cell in cells[1:] for form in cell.split("|")]


def cells_of(line: str, delimiter: str, *, has_quotes: bool = True) -> list[str]:
    """The cells of one line of CSV or, without quotes, of TSV.

    Raises:
        DataError: a quote is not closed in the line, or text follows a closing one, or a cell has a line break.
    """
    import csv

    if not has_quotes:
        return line.split(delimiter)
    try:
        cells = next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        if "end of data" not in str(error):
            raise DataError(f"not CSV: {error}; quote cells with commas and quotes") from error
        cells = ["\r"]  # what follows the quote is in the next lines
    if any("\r" in cell for cell in cells):
        raise DataError("a quote that is never closed; close it in its line, since a term has no line break")
    return cells


def _tbx(path: Path, src_lang: str, tgt_lang: str) -> Entries:
    """The terms of TBX; entities are refused, so that a small file stays small."""
    from xml.etree import ElementTree

    from mtkit.documents.markup import XmlCheck, XmlError
    from mtkit.text.language import is_language

    with translate_read_errors(path):
        if path.stat().st_size > MAX_TBX_BYTES:
            raise DataError(f"{path}: more than {MAX_TBX_BYTES >> 20} MiB; split it")
        content = path.read_bytes()
    try:
        XmlCheck(encoding=None).feed(content, is_last=True)
        root = ElementTree.fromstring(content)
    except XmlError as error:
        raise DataError(f"{path}:{error.line}: {error}; export it as TBX again") from error
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise DataError(f"{path}: not XML: {error}; export it as TBX again") from error
    entries = [each for each in root.iter() if _tag(each.tag) in ("termEntry", "conceptEntry")]
    for number, entry in enumerate(entries, start=1):
        sources: list[str] = []
        forms: list[str] = []
        for language in (each for each in entry.iter() if _tag(each.tag) in ("langSet", "langSec")):
            code = language.get("{http://www.w3.org/XML/1998/namespace}lang", "")
            texts = ["".join(each.itertext()) for each in language.iter() if _tag(each.tag) == "term"]
            for wanted, terms in ((src_lang, sources), (tgt_lang, forms)):
                terms += texts if is_language(code, wanted) else []
        for source in sources if forms else []:
            yield f"{path}: entry {number}", source, forms


def _tag(name: object) -> str:
    return str(name).rpartition("}")[2]
