"""The reader of parallel text in files that have both sides; memory does not grow with the files.

Parallel text is named as FILE, FILE#SRC,TGT with the columns, keys or languages of the two sides, or a pattern of file
names such as `data/*.tmx`. Files may be compressed.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mtkit.documents.format import REMEDIES, DocumentFormat, format_of, format_table, suffixes
from mtkit.documents.reading import DocumentSource, Report, ignore
from mtkit.errors import DataError, MissingInputError, UsageError
from mtkit.io.files import require_regular_file, translate_read_errors
from mtkit.text.lines import open_content, without_compression

_SIDES = re.compile(r"(?P<path>.+)#(?P<src>[^#,/]+),(?P<tgt>[^#,/]+)", re.DOTALL)


def split_name(name: Path) -> tuple[Path, tuple[str, ...]]:
    """The path of parallel text, and the names of its two sides, if it states them behind #."""
    match = _SIDES.fullmatch(str(name))
    return (name, ()) if match is None or name.exists() else (Path(match["path"]), (match["src"], match["tgt"]))


def has_pairs(name: Path) -> bool:
    """Return whether the end of a name is that of files with both sides."""
    form = format_table().get(without_compression(split_name(name)[0]).suffix.lower())
    return form is not None and form.has_pairs


def find_files(name: Path) -> list[Path]:
    """The files of parallel text, in order of their names.

    Raises:
        MissingInputError: there is none, or it is no regular file.
        UsageError: the name of one is of no format with pairs.
    """
    path = split_name(name)[0]
    files = [path]
    if not path.exists() and glob.has_magic(str(path)):
        files = [Path(each) for each in sorted(glob.glob(str(path), recursive=True))]
        if not files:
            raise MissingInputError(f"{path}: no file has a name of this pattern")
    for file in files:
        require_regular_file(file)
        if not has_pairs(file):
            raise UsageError(f"{file}: {_without_pairs(file)}")
    return files


def _without_pairs(file: Path) -> str:
    """The kind of a file without pairs, and what to give instead."""
    suffix = without_compression(file).suffix.lower()
    if suffix in REMEDIES:
        return f"{suffix} has no pairs that are read; {REMEDIES[suffix]}"
    kind = "a document without pairs" if suffix in suffixes(lambda form: not form.is_plain) else "one text"
    known = ", ".join(suffixes(lambda form: form.has_pairs))
    return f"{kind}; give a source and its translation, or a file with both sides: {known}"


def read_pairs(
    name: Path, *, src_lang: str, tgt_lang: str, encoding: str | None = None, report: Report = ignore
) -> Iterator[tuple[int, str, str]]:
    """(line, source, target) of each pair, without inline marks; sources without a translation are left out.

    The line is that of the file where the unit or the text before it begins, or the row of a workbook; of PO, fuzzy
    translations are left out too.

    Args:
        name: of parallel text, see above; of tables, the first row may name the two sides, see `pair_columns`.
        src_lang, tgt_lang: languages of TMX; en is also en-GB.
        encoding: of the file; None: as it declares.
        report: receives the sentence that an encoding was guessed.

    Raises:
        UsageError: the format has no pairs, or the encoding is unknown.
        DataError: the file is not of its format, cannot be decoded, or changed while it was read.
        MissingInputError, ReadWriteError: it cannot be read.
        MissingExtraError: a package that reads the format is not installed.
    """
    sides = split_name(name)[1]
    for path in find_files(name):
        form = format_of(without_compression(path), src_lang=src_lang, tgt_lang=tgt_lang, encoding=encoding)
        if sides:
            stated = {"fields": sides} if form.has_columns else {"src_lang": sides[0], "tgt_lang": sides[1]}
            form = type(form)(replace(form.options, **stated))
        with translate_read_errors(path):
            before = path.stat()
            yield from _pairs_of(path, form, report)
            after = path.stat()
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise DataError(f"{path}: changed while it was read; read it again when it is complete")


def _pairs_of(path: Path, form: DocumentFormat, report: Report) -> Iterator[tuple[int, str, str]]:
    if (rows := form.file_pairs(path)) is not None:
        yield from rows
        return
    with open_content(path) as file:
        source = DocumentSource(file, os.fspath(path), form, form.root, report)
        for first, _, pairs in source.read(lambda stretch: list(form.pairs(stretch)), form.pair_stretches):
            for line, src, tgt in pairs:
                yield first + line, src, tgt
