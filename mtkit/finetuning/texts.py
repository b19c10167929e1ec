"""Texts of a fine-tuning, and their split into train, valid and test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mtkit.documents.format import format_of
from mtkit.documents.pair_lines import PairLines, write_pairs
from mtkit.documents.pairs import find_files, is_parallel, line_files
from mtkit.documents.reading import Report
from mtkit.errors import DataError, UsageError
from mtkit.io.files import atomic_folder, hash_file, require_regular_file
from mtkit.io.records import Json
from mtkit.pipeline.new_recipe import Pair, ParallelText, SplitReport, split_corpus
from mtkit.text.lines import count_lines, read_lines, without_compression


@dataclass(frozen=True)
class GivenText:
    """Pairs as a user gives them: two files of lines, or parallel text by its name; and files of valid and test.

    Attributes:
        files: source and target, or the name of parallel text, see documents/pairs.py.
        docid: file with the name of each line's document; None: lines are split one by one.
        encoding: of documents; None: as they declare.
    """

    files: tuple[Path, ...]
    valid: Pair | None = None
    test: Pair | None = None
    docid: Path | None = None
    encoding: str | None = None

    @property
    def _paths(self) -> list[Path]:
        files = line_files(self.files[0]) or find_files(self.files[0]) if len(self.files) == 1 else self.files
        return [*files, *(self.valid or ()), *(self.test or ()), *([self.docid] if self.docid else [])]

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
        if len(self.files) == 1:
            PairLines(self.files[0]).require()
        for path in self._paths:
            require_regular_file(path)
        if len(self.files) == 1 and line_files(self.files[0]) is None:
            for file in find_files(self.files[0]):
                if self.docid is not None:
                    raise UsageError(f"--docid: names the documents of lines, and {file} has none; omit it")
                format_of(without_compression(file), src_lang="", tgt_lang="", encoding=self.encoding)  # its errors
        elif document := next((each for each in self.files if len(self.files) > 1 and is_parallel(each)), None):
            raise UsageError(f"{document}: has both sides; give it alone, or two files of lines")
        elif self.encoding is not None:
            raise UsageError("--encoding: is of a document with both sides; convert files of lines with iconv")


def split_text(text: GivenText, folder: Path, langs: tuple[str, str], notify: Report) -> SplitReport:
    """Write train, valid and test of a text into `folder`, unless they are there and unchanged.

    The lines of a document are first extracted to a folder beside it, `folder`-pairs, which `notify` receives sentences
    about.

    Raises:
        UsageError, DataError, MissingInputError, MissingExtraError, ReadWriteError: as `split_corpus` and
            `PairLines.extract`.
    """
    document = None
    if len(text.files) == 1:
        document = PairLines(text.files[0], langs, text.encoding, folder.with_name(f"{folder.name}-pairs"))
        document.extract(notify)
    src, tgt = text.files if document is None else document.files
    given = {"valid": text.valid, "test": text.test}
    held_out = {part: pair for part, pair in given.items() if pair is not None}
    return split_corpus(ParallelText(src, tgt, langs, text.docid, held_out, document), folder)  # type: ignore[arg-type]


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
