"""Texts of a fine-tuning: pairs of documents as files of lines, and their split into train, valid and test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mtkit.documents.format import format_of
from mtkit.documents.pairs import find_files, has_pairs, read_pairs
from mtkit.documents.reading import Report
from mtkit.errors import DataError, UsageError
from mtkit.io.files import atomic_folder, hash_file, require_regular_file
from mtkit.io.records import Json
from mtkit.pipeline.new_recipe import Pair, ParallelText, SplitReport, split_corpus
from mtkit.text.lines import count_lines, read_lines


@dataclass(frozen=True)
class GivenText:
    """Pairs as a user gives them: two files of lines, or one document; and files of valid and test, if there are any.

    Attributes:
        files: source and target, or one document.
        docid: file with the name of each line's document; None: lines are split one by one.
        encoding: of one document; None: as it declares.
    """

    files: tuple[Path, ...]
    valid: Pair | None = None
    test: Pair | None = None
    docid: Path | None = None
    encoding: str | None = None

    @property
    def _paths(self) -> list[Path]:
        return [*self.files, *(self.valid or ()), *(self.test or ()), *([self.docid] if self.docid else [])]

    @property
    def inputs(self) -> Json:
        """Paths and hashes of all files, and the encoding if it is stated."""
        stated = {} if self.encoding is None else {"--encoding": self.encoding}
        return {str(path.resolve()): hash_file(path) for path in self._paths} | stated

    def check(self) -> None:
        """Check before any work that the files are there and are of a kind that has pairs.

        Raises:
            UsageError: one file has no pairs, or there are more than two.
            MissingInputError: a file does not exist.
        """
        for path in self._paths:
            require_regular_file(path)
        if len(self.files) == 1:
            (file,) = find_files(self.files[0])
            if self.docid is not None:
                raise UsageError(f"--docid: names the documents of lines, and {file} has none; omit it")
            format_of(file, src_lang="", tgt_lang="", encoding=self.encoding)  # its errors
        elif document := next(filter(has_pairs, self.files), None):
            raise UsageError(f"{document}: has both sides; give it alone, or two files of lines")
        elif self.encoding is not None:
            raise UsageError("--encoding: is of a document with both sides; convert files of lines with iconv")


def split_text(text: GivenText, folder: Path, langs: tuple[str, str], notify: Report) -> SplitReport:
    """Write train, valid and test of a text into `folder`, unless they are there and unchanged.

    The pairs of a document are first written to a folder beside it, `folder`-pairs. `notify` receives a sentence about
    a guessed encoding.

    Raises:
        UsageError, DataError, MissingInputError, MissingExtraError, ReadWriteError: as `split_corpus` and `read_pairs`,
            or a document has no pair of these languages.
    """
    src, tgt = text.files if len(text.files) == 2 else _pairs_as_lines(text, folder, langs, notify)
    given = {"valid": text.valid, "test": text.test}
    held_out = {part: pair for part, pair in given.items() if pair is not None}
    return split_corpus(ParallelText(src, tgt, langs, text.docid, held_out), folder)  # type: ignore[arg-type]


def _pairs_as_lines(text: GivenText, folder: Path, langs: tuple[str, str], notify: Report) -> Pair:
    """Write the pairs of a document as lines of two files, without inline marks; return their paths."""
    document = text.files[0]
    written = folder.with_name(f"{folder.name}-pairs")
    files = written / f"pairs.{langs[0]}", written / f"pairs.{langs[1]}"
    if not all(file.is_file() for file in files):
        with atomic_folder(written) as temporary:
            pairs = read_pairs(document, src_lang=langs[0], tgt_lang=langs[1], encoding=text.encoding, report=notify)
            count = write_pairs(
                ((src, tgt) for _, src, tgt in pairs), temporary / files[0].name, temporary / files[1].name
            )
            if not count:
                raise DataError(
                    f"{document}: no pair of {langs[0]} and {langs[1]}, the languages of the model; check the "
                    "languages of the file, and that its translations are not empty"
                )
    return files


def write_pairs(pairs: Iterator[tuple[str, str]], src: Path, tgt: Path) -> int:
    """Write pairs as lines of two files, line breaks as spaces; return their number."""
    count = 0
    with (
        src.open("w", encoding="utf-8", newline="\n") as first,
        tgt.open("w", encoding="utf-8", newline="\n") as second,
    ):
        for pair in pairs:
            for file, text in zip((first, second), pair, strict=True):
                file.write(f"{' '.join(text.split())}\n")
            count += 1
    return count


def translated_text(source: Path, folder: Path, translate: Callable[[Sequence[str]], list[str]], limit: int) -> Pair:
    """Lines of a text in the source language and their translations by the model, as two files in `folder`.

    Text with a model's own translations keeps the model what it is, as parallel text would: sequence-level knowledge
    distillation (Kim & Rush 2016, https://arxiv.org/abs/1606.07947) of the model to itself.

    Args:
        limit: lines to translate, evenly spaced; blank ones are left out.

    Raises:
        DataError: there are no lines.
    """
    files = folder / "source.txt", folder / "translation.txt"
    if all(file.is_file() for file in files):
        return files
    step = max(1, count_lines(source) // limit)
    lines = [line for line in islice(read_lines(source), 0, None, step) if line.strip()][:limit]
    if not lines:
        raise DataError(f"{source}: all lines are blank; give text of the language that the model translates")
    with atomic_folder(folder) as temporary:
        write_pairs(zip(lines, translate(lines), strict=True), temporary / files[0].name, temporary / files[1].name)
    return files
