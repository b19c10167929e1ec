"""XLSX workbooks: pairs of the first two columns of the first sheet, read by openpyxl."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mtkit.errors import DataError, require_extra
from mtkit.text.structure.xml_check import XmlCheck, XmlError

MAX_SIZE = 1 << 28  # bytes of all members without compression: openpyxl holds a sheet in memory
_CHUNK = 1 << 20
_SAVE_AGAIN = "save it as .xlsx, or as .tsv with two columns"


def spreadsheet_pairs(path: Path) -> Iterator[tuple[int, str, str]]:
    """(row, source, target) of each row whose first two cells have text; numbers and dates are written as text.

    Raises:
        MissingExtraError: openpyxl is not installed.
        DataError: the file is no workbook, damaged or too large, one of the two columns is empty, or cells of them are
            merged, so that it is unclear which source a target belongs to.
    """
    sheet = _first_sheet(path)
    for cells in sheet.merged_cells.ranges:
        if cells.min_col <= 2:
            raise DataError(
                f"{path}: sheet {sheet.title!r}: the cells {cells.coord} are merged; unmerge them, so that each row "
                "has its source in column A and its translation in column B"
            )
    rows = sheet.iter_rows(max_col=2, values_only=True)
    filled = [0, 0]
    for number, row in enumerate(rows, start=1):
        texts = [*("" if value is None else str(value).strip() for value in row), "", ""][:2]
        filled = [count + bool(text) for count, text in zip(filled, texts, strict=True)]
        if all(texts):
            yield number, texts[0], texts[1]
    if not all(filled):
        empty = "AB"[filled.index(0)]
        raise DataError(
            f"{path}: sheet {sheet.title!r}: column {empty} is empty; put the source into column A and its translation "
            "into column B of the first sheet"
        )


def _first_sheet(path: Path) -> Any:
    with require_extra("xlsx", "openpyxl"):
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    _check_archive(path)
    try:
        book = load_workbook(path, data_only=True)
    except (InvalidFileException, KeyError, ValueError, TypeError, AttributeError, SyntaxError) as error:
        raise DataError(f"{path}: not a workbook that openpyxl reads; {_SAVE_AGAIN}") from error
    if not book.worksheets:
        raise DataError(f"{path}: a workbook without sheets; {_SAVE_AGAIN}")
    return book.worksheets[0]


def _check_archive(path: Path) -> None:
    """Check the archive and its XML before openpyxl reads them.

    Raises:
        DataError: it is no archive, damaged, encrypted or too large, or its XML declares entities.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            if sum(info.file_size for info in infos) > MAX_SIZE:
                raise DataError(f"{path}: more than {MAX_SIZE >> 20} MiB of content; {_SAVE_AGAIN}")
            for name in (info.filename for info in infos if info.filename.endswith((".xml", ".rels"))):
                _check_member(archive, name)
    except XmlError as error:
        raise DataError(f"{path}: {error}; {_SAVE_AGAIN}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError, RuntimeError) as error:
        raise DataError(
            f"{path}: not an XLSX workbook, or one that is damaged or has a password; {_SAVE_AGAIN}"
        ) from error


def _check_member(archive: zipfile.ZipFile, name: str) -> None:
    check = XmlCheck(None)
    with archive.open(name) as member:
        while chunk := member.read(_CHUNK):
            check.feed(chunk)
    check.feed(b"", is_last=True)
