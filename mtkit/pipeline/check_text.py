"""Texts to check: two files of lines, parallel text by its names, or all texts of a recipe."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from mtkit.corpus.config import (
    CorpusConfig,
    CorpusFiles,
    MonolingualFile,
    PairDocument,
    TrainBacktranslated,
    TrainFiles,
    extract_lines,
)
from mtkit.corpus.lenient_reading import JoinedInput, ParallelInput, Record, record_characters
from mtkit.corpus.near_match import HeldOutText
from mtkit.corpus.split import read_pairs as read_lines_of
from mtkit.corpus.text_check import CheckReport, TextCheck
from mtkit.display import count_of
from mtkit.documents.pair_lines import PairLines, no_pairs
from mtkit.documents.pairs import OneSided, documents, is_parallel, line_files, read_pairs, split_name
from mtkit.documents.reading import Report, ignore
from mtkit.errors import UsageError
from mtkit.io.files import require_regular_file, translate_write_errors
from mtkit.text.lines import check_line_counts

Langs = tuple[str | None, str | None]
Pair = tuple[Path, Path]
STDIN = Path("-")


def check_files(
    names: Sequence[Path], langs: Langs, held_out: Sequence[Pair], notify: Report, encoding: str | None = None
) -> CheckReport:
    """Check a parallel text; arguments and errors as `open_text`.

    Args:
        held_out: files of valid and test.

    Raises:
        DataError, MissingInputError, ReadWriteError, MissingExtraError: as `TextCheck` and `read_pairs`.
    """
    return TextCheck(open_text(names, langs, notify, encoding), held_out_text(held_out))()


def open_text(names: Sequence[Path], langs: Langs, notify: Report, encoding: str | None = None) -> ParallelInput:
    """Two files of lines; or parallel text of one or more names (see documents/pairs.py), of which - is TSV on stdin.

    Args:
        langs: stated languages; a TMX document needs both, and so does the common beginning of two files of lines.
        notify: receives the sentence that an encoding was guessed.
        encoding: of documents; None: as they declare.

    Raises:
        UsageError: a document has no pairs of these languages, or cannot have any; or stdin is named twice.
        DataError, MissingInputError, ReadWriteError: as `read_pairs`, `PairLines.require` and `check_line_counts`.
    """
    codes = (langs[0] or "", langs[1] or "")
    if len(names) == 2 and not any(each == STDIN or is_parallel(each, codes) for each in names):
        if encoding is not None:
            raise UsageError("--encoding: is of a document with both sides; convert files of lines with iconv")
        for path in names:
            require_regular_file(path)
        return ParallelInput.of_files(names[0], names[1], langs)
    if list(names).count(STDIN) > 1:
        raise UsageError("-: is stdin, which can be read once; omit one of the two")
    parts: list[ParallelInput] = []
    for name in names:
        PairLines(name, codes).require()
        if (files := line_files(name, codes)) is not None:
            parts.append(ParallelInput.of_files(*files, split_name(name)[1] or langs))
        elif name == STDIN:
            parts.append(_stdin(langs, notify, encoding))
        else:
            parts += [_document(each, langs, notify, encoding) for each in documents(name)]
    if len(parts) == 1:
        return parts[0]
    for part in parts:
        if part.files:
            check_line_counts(*part.files)
    others = f" and {count_of(len(names) - 1, 'other')}" if len(names) > 1 else ""
    return JoinedInput.of_parts(f"{names[0]}{others}", parts)


def _stdin(langs: Langs, notify: Report, encoding: str | None) -> ParallelInput:
    """TSV on stdin, in a temporary file, since it is read several times."""
    folder = TemporaryDirectory(prefix="mtkit-")
    path = Path(folder.name) / "stdin.tsv"
    with translate_write_errors(path), path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    text = _document(path, langs, notify, encoding, name="stdin")
    text.resources = folder
    return text


def held_out_of(corpus: CorpusConfig) -> list[Pair]:
    """The files of valid and test of a recipe that have two sides."""
    return [(each.src, each.tgt) for each in corpus.held_out_pairs.values()]


def text_of(corpus: CorpusConfig, files: CorpusFiles) -> ParallelInput:
    """The lines of a text of a recipe, which for a document are there after `extract_lines`.

    A tag or prefix may name another language than the recipe, which is then unknown.
    """
    is_stated = files.tag is None and files.prefix is None
    return ParallelInput.of_files(files.src, files.tgt, corpus.languages_of(files) if is_stated else (None, None))


def held_out_text(files: Sequence[Pair]) -> HeldOutText | None:
    """The lines of valid and test; None without files.

    Raises:
        DataError, MissingInputError, ReadWriteError, MissingExtraError: as `check_line_counts` and `read_lines`.
    """
    for each in files:
        check_line_counts(*each)
    return HeldOutText(chain.from_iterable(read_lines_of(*each) for each in files)) if files else None


def _document(
    path: Path, langs: Langs, notify: Report, encoding: str | None = None, name: str | None = None
) -> ParallelInput:
    src_lang, tgt_lang = (each or "" for each in langs)
    file, numbers = split_name(path)[0], list[int]()
    shown = name or str(file)

    def read(record: Record) -> Iterator[tuple[str | None, str | None]]:
        text.one_sided = OneSided()
        pairs = read_pairs(
            path,
            src_lang=src_lang,
            tgt_lang=tgt_lang,
            encoding=encoding,
            report=notify,
            one_sided=text.one_sided,
        )
        for number, (line, src, tgt) in enumerate(pairs):
            if number == len(numbers):
                numbers.append(line)
            record_characters(src.replace("\n", " "), "src", number, record)
            record_characters(tgt.replace("\n", " "), "tgt", number, record)
            yield src, tgt
        text.one_sided.first = text.one_sided.first.replace(str(file), shown)
        if not numbers:
            raise UsageError(no_pairs(path, (src_lang, tgt_lang)))

    text = ParallelInput((shown, shown), read, langs, numbers, paths=(file,))
    return text


def check_recipe(corpus: CorpusConfig, notify: Report = ignore) -> Iterator[CheckReport]:
    """Yield a report of each text of a recipe; of training text, also what it shares with valid and test.

    Back-translations are checked once they are made.

    Raises:
        DataError, MissingInputError, ReadWriteError, MissingExtraError: as `TextCheck`.
    """
    extract_lines(corpus.all_files, notify)
    known = held_out_text(held_out_of(corpus))
    for files in corpus.all_files:
        if isinstance(files, MonolingualFile) or (isinstance(files, TrainBacktranslated) and not files.src.exists()):
            continue
        yield TextCheck(given_text(corpus, files), known if isinstance(files, TrainFiles) else None)()


def given_text(corpus: CorpusConfig, files: CorpusFiles) -> ParallelInput:
    """A text of a recipe with the places of its documents; otherwise as `text_of`."""
    text = text_of(corpus, files)
    if not isinstance(files, PairDocument) or set(files.given) == {files.src, files.tgt}:
        return text
    parts = [_document(each, corpus.languages_of(files), ignore, files.encoding) for each in documents(files.pairs)]
    return JoinedInput.of_parts(str(files.pairs), parts) if len(parts) > 1 else parts[0]
