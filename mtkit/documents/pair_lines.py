"""Parallel text of any form as two files of lines: the pairs of documents are extracted once, into a folder.

```
source.txt, target.txt   the pairs, line by line
pairs.json               hashes of the documents and of both files, numbers of pairs, and those with one side alone
```
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from mtkit.display import count_of, in_current_folder
from mtkit.documents.pairs import OneSided, find_files, is_parallel, line_files, named_files, read_pairs, split_name
from mtkit.documents.reading import Report, ignore
from mtkit.errors import DataError, ReadWriteError, UsageError
from mtkit.io.files import atomic_folder, changed_files, hash_file
from mtkit.io.lock import make_once
from mtkit.io.records import Json, is_record, read_record, write_record
from mtkit.text.corpora import NamedCorpus, named_corpus

SOURCE, TARGET, RECORD = "source.txt", "target.txt", "pairs.json"
_FORM = 2  # of the lines; one more when a document gives others
_MAGIC = re.compile("[*?[]")
_UNUSUAL = re.compile(r"[^\w.-]+")  # in names of folders
_LINE_BREAK = re.compile(r"[ \t]*[\r\n]+[ \t\r\n]*")


@dataclass(frozen=True)
class PairLines:
    """Parallel text by its name, see documents/pairs.py, as two files of lines.

    Attributes:
        langs: of the source and the target, of TMX and of the names of files; empty: unknown.
        encoding: of documents; None: as they declare.
        stated_folder: of the lines; None: a hidden one beside the document.
    """

    name: Path
    langs: tuple[str, str] = ("", "")
    encoding: str | None = None
    stated_folder: Path | None = None

    @property
    def named(self) -> NamedCorpus | None:
        """The corpus in an index that the name is of; None: it is a name of files."""
        return named_corpus(self.name, self.langs)

    @property
    def is_lines(self) -> bool:
        """Return whether the user has two files of lines."""
        return line_files(self.name, self.langs) is not None

    @property
    def given(self) -> list[Path]:
        """The files that the user has, or should have."""
        files = line_files(self.name, self.langs) or named_files(self.name)
        if is_parallel(self.name, self.langs) or files[0].exists() or not all(self.langs):
            return list(files)
        return [files[0].with_name(f"{files[0].name}.{lang}") for lang in self.langs]

    @property
    def folder(self) -> Path:
        """The folder of the lines of documents. Its name has a hash of all settings that the lines depend on."""
        if self.stated_folder is not None:
            return self.stated_folder
        path, sides = split_name(self.name)
        parent = path.parent
        while _MAGIC.search(str(parent)) and not parent.exists():
            parent = parent.parent
        settings = [os.path.relpath(path, parent), sides, self.langs, self.encoding]
        digest = hashlib.sha256(json.dumps(settings).encode()).hexdigest()
        words = ".".join((path.name[:80], "-".join(sides or self.langs)[:40], digest[:8]))
        return parent / f".{_UNUSUAL.sub('_', words)}"

    @property
    def files(self) -> tuple[Path, Path]:
        """Source and target, line by line; those of documents are there after `extract`."""
        return line_files(self.name, self.langs) or (self.folder / SOURCE, self.folder / TARGET)

    def extract(self, report: Report = ignore) -> None:
        """Extract the lines of documents, unless they are there and the documents are unchanged.

        Processes that do this at the same time wait for the first one.

        Args:
            report: receives sentences about the work, about a guessed encoding, and, each time, about pairs that are
                left out since one side is empty.

        Raises:
            UsageError: as `read_pairs`, or the folder has files that mtkit did not write.
            DataError: as `read_pairs`, or there is no pair.
            MissingInputError, MissingExtraError: as `read_pairs`.
            ReadWriteError: a file cannot be read or written.
        """
        self.require()
        if self.is_lines:
            return
        self._extract_once(self._inputs(), report)
        one_sided = OneSided(**read_record(self.folder / RECORD, remedy="")["one_sided"])
        if one_sided.count:
            report(in_current_folder(f"{self.name}: {one_sided.sentence()}"))

    def require(self) -> None:
        """Check that a corpus that is named by an index is there; errors as `NamedCorpus.require`."""
        if self.named is not None:
            self.named.require()

    def _extract_once(self, inputs: Json, report: Report) -> None:
        waits = f"{self.name}: another process extracts its pairs; waiting ..."
        try:
            make_once(
                self.folder,
                lambda: self._is_current(inputs),
                lambda: self._extract(inputs, report),
                lambda: report(waits),
            )
        except ReadWriteError as error:
            parent = self.folder.parent
            if self.stated_folder is not None or not parent.is_dir() or os.access(parent, os.W_OK):
                raise
            raise ReadWriteError(
                f"{error}; its lines are kept beside it: copy it to a folder that can be written, or name one in a "
                "recipe: {pairs: FILE, lines_folder: FOLDER}"
            ) from error

    def _inputs(self) -> Json:
        """Hashes of the documents and the settings that their lines depend on, as plain values."""
        sides = split_name(self.name)[1]
        hashes = [[path.name, hash_file(path)] for path in find_files(self.name)]
        settings = {"sides": list(sides), "langs": list(self.langs), "encoding": self.encoding}
        return {"form": _FORM, **settings, "documents": hashes}

    def _is_current(self, inputs: Json) -> bool:
        record = self.folder / RECORD
        known = read_record(record, remedy="") if is_record(record) else {}
        return known.get("inputs") == inputs and not changed_files(self.folder, known["files"])

    def _extract(self, inputs: Json, report: Report) -> None:
        known = self.folder / RECORD
        if self.folder.exists() and not known.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise UsageError(f"{self.folder}: has files that mtkit did not write; name another folder for the lines")
        is_changed = is_record(known) and read_record(known, remedy="")["inputs"] != inputs
        name = in_current_folder(str(self.name))
        report(f"{name}: {'changed; ' if is_changed else ''}its pairs are extracted ...")
        src_lang, tgt_lang = self.langs
        with atomic_folder(self.folder) as folder:
            one_sided = OneSided()
            pairs = read_pairs(
                self.name,
                src_lang=src_lang,
                tgt_lang=tgt_lang,
                encoding=self.encoding,
                report=report,
                one_sided=one_sided,
            )
            count = write_pairs(((src, tgt) for _, src, tgt in pairs), folder / SOURCE, folder / TARGET)
            if not count:
                raise DataError(no_pairs(self.name, self.langs))
            files = {name: hash_file(folder / name) for name in (SOURCE, TARGET)}
            record = {"inputs": inputs, "pairs": count, "one_sided": asdict(one_sided), "files": files}
            write_record(folder / RECORD, record)
        report(in_current_folder(f"{name}: {count_of(count, 'pair')} in {self.folder}"))


def text_files(name: Path, report: Report) -> list[Path]:
    """The files of lines that a name stands for: source and target of parallel text, or the file of this name.

    Errors as `PairLines.extract`.
    """
    if not is_parallel(name):
        return [name]
    lines = PairLines(name)
    lines.extract(report)
    return list(lines.files)


def no_pairs(name: Path, langs: tuple[str, str]) -> str:
    """The words of an error: a document has no pair of two languages, each of which may be empty."""
    path, sides = split_name(name)
    langs = sides or langs
    of_langs = f" of {langs[0]} and {langs[1]}" if all(langs) else ""
    remedy = "check its languages" if of_langs else "state its languages with --src-lang and --tgt-lang"
    return f"{path}: no pair{of_langs}; {remedy}, or name its sides (FILE#SRC,TGT), and see that no text is empty"


def write_pairs(pairs: Iterable[tuple[str, str]], src: Path, tgt: Path) -> int:
    """Write pairs as lines of two files, line breaks as spaces; return their number."""
    count = 0
    with (
        src.open("w", encoding="utf-8", newline="\n") as first,
        tgt.open("w", encoding="utf-8", newline="\n") as second,
    ):
        for pair in pairs:
            for file, text in zip((first, second), pair, strict=True):
                file.write(_LINE_BREAK.sub(" ", text.strip(" \t\r\n")) + "\n")
            count += 1
    return count
