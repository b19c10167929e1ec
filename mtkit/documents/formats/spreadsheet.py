"""XLSX workbooks: pairs of the first two columns of the first sheet, read by openpyxl."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mtkit.documents.formats.office import Excel
from mtkit.documents.formats.tables import pair_columns
from mtkit.documents.markup import XmlCheck, XmlError
from mtkit.documents.unit import StretchError
from mtkit.errors import DataError, require_extra

MAX_SIZE = 1 << 28  # bytes of all members without compression: openpyxl holds a sheet in memory
MAX_ROWS = 1 << 20  # of a sheet, as Excel has it
_CHUNK = 1 << 20
_WORKSHEET = "worksheets/"  # folder of the members that are sheets
_FIRST_TWO = re.compile(r"\$?[AB]\$?\d")  # how a range of the first two columns begins
_UNREADABLE = (
    KeyError,
    IndexError,
    ValueError,
    TypeError,
    AttributeError,
    SyntaxError,
    OSError,
    EOFError,
    OverflowError,
)
_SAVE_AGAIN = "save it as .xlsx, or as .tsv with two columns"


class Spreadsheet(Excel):
    """Workbooks, whose texts are translated, and whose first two columns are pairs."""

    suffixes = (".xlsx",)
    has_pairs = has_columns = True

    def file_pairs(self, path: Path) -> Iterator[tuple[int, str, str]]:
        """(row, source, target) of the two columns of each row; numbers and dates are written as text.

        The columns are those of `pair_columns`, or else the first two.

        Raises:
            MissingExtraError: openpyxl is not installed.
            DataError: the file is no workbook, damaged or too large, one of the two columns is empty, or cells of them
                are merged, so that it is unclear which source a target belongs to.
        """
        with require_extra("xlsx", "openpyxl"):
            from openpyxl import load_workbook
            from openpyxl.utils import get_column_letter
        merged = _check_archive(path)
        filled = [0, 0]
        try:
            book = load_workbook(path, read_only=True, data_only=True)  # whole, it has a cell for each row
            if not book.worksheets:
                raise DataError(f"{path}: a workbook without sheets; {_SAVE_AGAIN}")
            sheet: Any = book.worksheets[0]
            if cells := next((each for each in merged.get(sheet._worksheet_path, ()) if _FIRST_TWO.match(each)), None):
                raise DataError(
                    f"{path}: sheet {sheet.title!r}: the cells {cells} are merged; unmerge them, so that each row has "
                    "its source in column A and its translation in column B"
                )
            sheet.reset_dimensions()  # they may be wrong
            columns = (0, 1)
            for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
                if number > MAX_ROWS:
                    raise DataError(f"{path}: sheet {sheet.title!r}: has a row above {MAX_ROWS:,}; {_SAVE_AGAIN}")
                values = [*("" if value is None else str(value).strip() for value in row), "", ""]
                if number == 1 and (named := pair_columns(values, self.options)) is not None:
                    columns = named
                    continue
                texts = [values[column] if column < len(values) else "" for column in columns]
                filled = [count + bool(text) for count, text in zip(filled, texts, strict=True)]
                yield number, texts[0], texts[1]
        except StretchError as error:
            raise DataError(f"{path}:1: {error}") from error
        except _UNREADABLE as error:
            raise DataError(f"{path}: not a workbook that openpyxl reads; {_SAVE_AGAIN}") from error
        if not all(filled):
            empty = get_column_letter(columns[filled.index(0)] + 1)
            raise DataError(
                f"{path}: sheet {sheet.title!r}: column {empty} is empty; put the source into column A and its "
                "translation into column B of the first sheet"
            )


def _check_archive(path: Path) -> dict[str, list[str]]:
    """Check the archive and its XML before openpyxl reads them.

    Returns:
        Ranges of merged cells, such as A3:A4, by member.

    Raises:
        DataError: it is no archive, damaged, encrypted or too large, or its XML declares entities.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            if sum(info.file_size for info in infos) > MAX_SIZE:
                raise DataError(f"{path}: more than {MAX_SIZE >> 20} MiB of content; {_SAVE_AGAIN}")
            names = [info.filename for info in infos if info.filename.lower().endswith((".xml", ".rels"))]
            return {name: _check_member(archive, name) for name in names}
    except XmlError as error:
        raise DataError(f"{path}: {error}; {_SAVE_AGAIN}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError, RuntimeError) as error:
        raise DataError(
            f"{path}: not an XLSX workbook, or one that is damaged or has a password; {_SAVE_AGAIN}"
        ) from error


def _check_member(archive: zipfile.ZipFile, name: str) -> list[str]:
    """Check the XML of a member; return its ranges of merged cells."""
    merged: list[str] = []

    def start(tag: str, attributes: Mapping[str, str]) -> None:
        if tag.rpartition(":")[2] == "mergeCell":
            merged.append(attributes.get("ref", ""))

    check = XmlCheck(None, start if _WORKSHEET in name.lower() else None)
    with archive.open(name) as member:
        while chunk := member.read(_CHUNK):
            check.feed(chunk)
    check.feed(b"", is_last=True)
    return merged
