"""Texts to check: two files, one document with both sides, or all texts of a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from mtkit.corpus.config import CorpusConfig, CorpusFiles, MonolingualFile, ParallelFiles, TrainBacktranslated
from mtkit.corpus.lenient_reading import ParallelInput, Record, record_characters
from mtkit.corpus.near_match import HeldOutText
from mtkit.corpus.split import read_pairs as read_lines_of
from mtkit.corpus.text_check import CheckReport, TextCheck
from mtkit.documents.pairs import find_files, read_pairs, split_name
from mtkit.documents.reading import Report
from mtkit.errors import UsageError
from mtkit.io.files import require_regular_file
from mtkit.text.lines import check_line_counts

Langs = tuple[str | None, str | None]
Pair = tuple[Path, Path]


def check_files(files: Sequence[Path], langs: Langs, held_out: Sequence[Pair], notify: Report) -> CheckReport:
    """Check two files of lines, or one document with both sides.

    Args:
        langs: stated languages; a TMX document needs both.
        held_out: files of valid and test.
        notify: receives the sentence that an encoding was guessed.

    Raises:
        UsageError: the document has no pairs of these languages, or cannot have any.
        DataError, MissingInputError, ReadWriteError, MissingExtraError: as `TextCheck` and `read_pairs`.
    """
    return TextCheck(open_text(files, langs, notify), held_out_text(held_out))()


def open_text(files: Sequence[Path], langs: Langs, notify: Report) -> ParallelInput:
    """Two files of lines, or one document with both sides; arguments and errors as `check_files`."""
    if len(files) == 1:
        if len(found := find_files(files[0])) > 1:
            raise UsageError(f"{files[0]}: {len(found)} files; give them one by one")
        return _document(files[0], langs, notify)
    for path in files:
        require_regular_file(path)
    return ParallelInput.of_files(files[0], files[1], langs)


def held_out_of(corpus: CorpusConfig) -> list[Pair]:
    """The files of valid and test of a recipe that have two sides."""
    sets = (*corpus.valid_sets, *corpus.test.values())
    return [(each.src, each.tgt) for each in sets if isinstance(each, ParallelFiles)]


def text_of(corpus: CorpusConfig, files: CorpusFiles) -> ParallelInput:
    """A pair of files of a recipe; a tag or prefix may name another language than the recipe, which is then unknown."""
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


def _document(path: Path, langs: Langs, notify: Report) -> ParallelInput:
    src_lang, tgt_lang = (each or "" for each in langs)
    numbers: list[int] = []

    def read(record: Record) -> Iterator[tuple[str | None, str | None]]:
        pairs = read_pairs(path, src_lang=src_lang, tgt_lang=tgt_lang, report=notify)
        for number, (line, src, tgt) in enumerate(pairs):
            if number == len(numbers):
                numbers.append(line)
            record_characters(src.replace("\n", " "), "src", number, record)
            record_characters(tgt.replace("\n", " "), "tgt", number, record)
            yield src, tgt
        if not numbers:
            raise UsageError(f"{path}: no pairs; state the languages of the file with --src-lang CODE --tgt-lang CODE")

    name = str(split_name(path)[0])
    return ParallelInput((name, name), read, langs, numbers)


def check_recipe(corpus: CorpusConfig) -> Iterator[CheckReport]:
    """Yield a report of each pair of files of a recipe; of training text, also what it shares with valid and test.

    Back-translations are checked once they are made.

    Raises:
        DataError, MissingInputError, ReadWriteError, MissingExtraError: as `TextCheck`.
    """
    known = held_out_text(held_out_of(corpus))
    for files in (*corpus.train, *corpus.valid_sets, *corpus.test.values()):
        if isinstance(files, MonolingualFile) or (isinstance(files, TrainBacktranslated) and not files.src.exists()):
            continue
        yield TextCheck(text_of(corpus, files), None if isinstance(files, ParallelFiles) else known)()
