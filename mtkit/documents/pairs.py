"""The reader of parallel text in files that have both sides; memory does not grow with the files.

Parallel text is named as FILE, FILE#SRC,TGT with the columns, keys or languages of the two sides, or a pattern of file
names such as `data/*.tmx`; as the common beginning of two files of lines, `data/train` of `data/train.de` and
`data/train.en`; or by an index of corpora, `sacrebleu:wmt14/full`, see text/corpora.py. Files may be compressed.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mtkit.display import count_of
from mtkit.documents.format import REMEDIES, DocumentFormat, format_of, format_table, suffixes
from mtkit.documents.reading import DocumentSource, Report, ignore
from mtkit.errors import DataError, MissingInputError, UsageError
from mtkit.io.files import require_regular_file, translate_read_errors
from mtkit.text.corpora import named_corpus
from mtkit.text.lines import COMPRESSION_SUFFIXES, open_content, without_compression

_SIDES = re.compile(r"(?P<path>.+)#(?P<src>[^#,/]+),(?P<tgt>[^#,/]+)", re.DOTALL)


def split_name(name: Path) -> tuple[Path, tuple[str, str] | tuple[()]]:
    """The path of parallel text, and the names of its two sides, if it states them behind #."""
    match = _SIDES.fullmatch(str(name))
    return (name, ()) if match is None or name.exists() else (Path(match["path"]), (match["src"], match["tgt"]))


def line_files(name: Path, langs: tuple[str, str] = ("", "")) -> tuple[Path, Path] | None:
    """The two files of lines whose names begin in the same way and end with languages; None if it is no such name.

    Args:
        langs: of source and target, unless the name states them; empty: unknown.
    """
    if (corpus := named_corpus(name, langs)) is not None:
        return corpus.files
    path, sides = split_name(name)
    if path.is_file():
        return None
    files = []
    for lang in filter(None, sides or langs):
        each = path.with_name(f"{path.name}.{lang}")
        candidates = (each.with_name(each.name + suffix) for suffix in ("", *COMPRESSION_SUFFIXES))
        files += [file for file in candidates if file.is_file()][:1]
    return (files[0], files[1]) if len(files) == 2 else None


def has_pairs(name: Path) -> bool:
    """Return whether the end of a name is that of files with both sides."""
    form = format_table().get(without_compression(split_name(name)[0]).suffix.lower())
    return form is not None and form.has_pairs


def is_parallel(name: Path, langs: tuple[str, str] = ("", "")) -> bool:
    """Return whether a name is that of parallel text instead of one text; arguments as `line_files`."""
    path = split_name(name)[0]
    is_pattern = glob.has_magic(str(path)) and not path.exists()
    is_named = named_corpus(name) is not None
    return is_named or is_pattern or has_pairs(name) or line_files(name, langs) is not None


def documents(name: Path) -> list[Path]:
    """The names of parallel text that stand for one file each; errors as `find_files`."""
    sides = split_name(name)[1]
    return [Path(f"{file}#{','.join(sides)}") if sides else file for file in find_files(name)]


def named_files(name: Path) -> list[Path]:
    """The files of a name, in their order, or the one that does not exist."""
    path = split_name(name)[0]
    matches = sorted(glob.glob(str(path), recursive=True)) if glob.has_magic(str(path)) and not path.exists() else []
    return [Path(each) for each in matches] or [path]


def find_files(name: Path) -> list[Path]:
    """The files of parallel text, in order of their names.

    Raises:
        MissingInputError: there is none, or it is no regular file.
        UsageError: the name of one is of no format with pairs.
    """
    files = named_files(name)
    for file in files:
        if not file.exists() and glob.has_magic(str(file)):
            raise MissingInputError(f"{file}: no file has a name of this pattern")
        if not file.exists() and (lines := sorted(file.parent.glob(f"{glob.escape(file.name)}.*"))):
            raise MissingInputError(
                f"{file}: no such file; if {lines[0]} is a side of a text, state the languages of both: {file}#SRC,TGT"
            )
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


@dataclass
class OneSided:
    """Pairs of documents that have one side alone.

    Attributes:
        first: FILE:LINE of the first one.
    """

    count: int = 0
    first: str = ""

    def others(self, path: Path, pairs: Iterable[tuple[int, str, str]]) -> Iterator[tuple[int, str, str]]:
        """The pairs of a file that have both sides; those with one are counted here."""
        for line, src, tgt in pairs:
            if src.strip() and tgt.strip():
                yield line, src, tgt
            elif src.strip() or tgt.strip():
                self.count += 1
                self.first = self.first or f"{path}:{line}"

    def sentence(self) -> str:
        """The pairs in one line."""
        are = "is" if self.count == 1 else "are"
        return f"{count_of(self.count, 'pair')} with one empty side {are} left out; the first: {self.first}"


def read_pairs(
    name: Path,
    *,
    src_lang: str,
    tgt_lang: str,
    encoding: str | None = None,
    report: Report = ignore,
    one_sided: OneSided | None = None,
) -> Iterator[tuple[int, str, str]]:
    """(line, source, target) of each pair that has both sides, without inline marks.

    The line is that of the file where the unit or the text before it begins, or the row of a workbook; of PO, fuzzy
    translations are left out.

    Args:
        name: of parallel text, see above; of tables, the first row may name the two sides, see `pair_columns`.
        src_lang, tgt_lang: languages of TMX; en is also en-GB.
        encoding: of the file; None: as it declares.
        report: receives the sentence that an encoding was guessed.
        one_sided: counts the pairs that are left out because one side is empty.

    Raises:
        UsageError: the format has no pairs, or the encoding is unknown.
        DataError: the file is not of its format, cannot be decoded, or changed while it was read.
        MissingInputError, ReadWriteError: it cannot be read.
        MissingExtraError: a package that reads the format is not installed.
    """
    sides = split_name(name)[1]
    left_out = one_sided or OneSided()
    for path in find_files(name):
        form = format_of(without_compression(path), src_lang=src_lang, tgt_lang=tgt_lang, encoding=encoding)
        if sides:
            stated = {"fields": sides} if form.has_columns else {"src_lang": sides[0], "tgt_lang": sides[1]}
            form = type(form)(replace(form.options, **stated))
        with translate_read_errors(path):
            before = path.stat()
            yield from left_out.others(path, _pairs_of(path, form, report))
            after = path.stat()
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise DataError(f"{path}: changed while it was read; read it again when it is complete")


def _pairs_of(path: Path, form: DocumentFormat, report: Report) -> Iterator[tuple[int, str, str]]:
    if (rows := form.file_pairs(path)) is not None:
        yield from rows
        return
    with open_content(path) as file:
        yield from DocumentSource(file, os.fspath(path), form, form.root, report).pairs()
