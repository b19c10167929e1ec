"""Corpora and test sets by name, from the indexes of other packages; `mtkit fetch` alone downloads them.

A name is KIND:NAME, with #SRC,TGT behind it where the languages are not known otherwise; KIND is a row of `KINDS`. The
folder that MTKIT_DATA names, or ~/.cache/mtkit, has a folder for each name and pair of languages. It may be copied to
machines without a network:

```
source.txt, target.txt   the lines
origin.json              name, languages, address, licence, number of lines, hashes of both files
```
"""

from __future__ import annotations

import difflib
import gzip
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, Any

from mtkit.display import count_of, printable
from mtkit.errors import DataError, MissingExtraError, MissingInputError, ReadWriteError, UsageError, require_extra
from mtkit.io.files import atomic_folder, changed_files, hash_file, translate_read_errors
from mtkit.io.lock import make_once
from mtkit.io.records import Json, is_record, read_record, write_record
from mtkit.text.language import is_language

if TYPE_CHECKING:
    from mtkit.io.fetch import Progress

VARIABLE = "MTKIT_DATA"
SOURCE, TARGET, RECORD = "source.txt", "target.txt", "origin.json"
_MAX_LICENCE = 200  # characters of a licence that are shown


@dataclass(frozen=True)
class Download:
    """The content of a corpus.

    Attributes:
        lines: of both sides, without line ends.
        address: where it comes from.
        licence: None: the index states none.
    """

    lines: Iterable[tuple[bytes, bytes]]
    address: str
    licence: str | None = None


@dataclass(frozen=True)
class NamedCorpus:
    """A corpus by its name in an index; `named_corpus` finds it.

    Attributes:
        kind: a row of KINDS.
        id: the name in the index.
        langs: of source and target; empty: unknown.
    """

    kind: str
    id: str
    langs: tuple[str, str]

    @property
    def name(self) -> str:
        """The name without languages."""
        return f"{self.kind}:{self.id}"

    @property
    def folder(self) -> Path:
        """The folder of the lines."""
        return data_folder() / self.kind / self.id / "-".join(self.langs)

    @property
    def files(self) -> tuple[Path, Path] | None:
        """Source and target, line by line; None: they are not there yet."""
        return (self.folder / SOURCE, self.folder / TARGET) if is_record(self.folder / RECORD) else None

    def record(self) -> Json:
        """The facts about the lines; errors as `read_record`."""
        return read_record(self.folder / RECORD, remedy=self._remedy)

    @property
    def _remedy(self) -> str:
        """Way for the lines to come to this machine."""
        command = f"mtkit fetch '{self.name}#{','.join(self.langs)}'"
        return f"{command} downloads it, also on another machine: copy {data_folder()}, or name it in {VARIABLE}"

    def require(self) -> None:
        """Check that the lines are there and unchanged.

        Raises:
            UsageError: the languages are not known.
            MissingInputError: they are not.
        """
        self._require_languages()
        if not self._is_there():
            state = "changed since it was downloaded" if self.files else f"not in {self.folder}"
            raise MissingInputError(f"{self.name}: {state}; {self._remedy}")

    def _require_languages(self) -> None:
        if not all(self.langs):
            raise UsageError(f"{self.name}: its languages are not known; name them: {self.name}#SRC,TGT")

    def fetch(self, report: Callable[[str], None], progress: Progress = lambda *done: None) -> None:
        """Download the corpus, unless its lines are there and unchanged; another process that does so is waited for.

        Args:
            report: receives sentences about the work.

        Raises:
            UsageError: the index has no such corpus, or its languages are not known.
            MissingExtraError: the package with the index is not installed.
            DataError: the sides differ in their numbers of lines, or the content is damaged.
            ReadWriteError: the network or the disk failed.
        """
        self._require_languages()
        waits = f"{self.name}: another process downloads it; waiting ..."
        make_once(self.folder, self._is_there, lambda: self._download(report, progress), lambda: report(waits))

    def _is_there(self) -> bool:
        return self.files is not None and not changed_files(self.folder, self.record()["files"])

    def _download(self, report: Callable[[str], None], progress: Progress) -> None:
        report(f"{self.name}: its lines in {' and '.join(self.langs)} are taken to {self.folder} ...")
        with atomic_folder(self.folder) as folder:
            try:
                found = KINDS[self.kind](self, progress)
                count = _write_lines(self.name, found.lines, folder)
            except ReadWriteError as error:
                raise ReadWriteError(f"{self.name}: {error}; {self._remedy}") from error
            files = {name: hash_file(folder / name) for name in (SOURCE, TARGET)}
            facts = {"address": found.address, "licence": found.licence, "lines": count, "files": files}
            write_record(folder / RECORD, {"name": self.name, "langs": list(self.langs), **facts})
        report(f"{self.name}: {count_of(count, 'line')}; licence: {found.licence or 'unknown'}")


def data_folder() -> Path:
    """The folder of all corpora."""
    return Path(os.environ.get(VARIABLE) or "~/.cache/mtkit").expanduser().absolute()


def named_corpus(name: Path | str, langs: tuple[str, str] = ("", "")) -> NamedCorpus | None:
    """The corpus of a name; None if it is none, or the name of a file that exists.

    Args:
        langs: of source and target, unless the name states them; empty: unknown.

    Raises:
        UsageError: the name leads outside the folder of corpora.
    """
    match = _NAME.fullmatch(str(name))
    if match is None or Path(name).exists():
        return None
    if ".." in PurePosixPath(match["id"]).parts or any("/" in lang for lang in langs):
        raise UsageError(f"{printable(str(name))}: no name of a corpus")
    stated = (match["src"], match["tgt"]) if match["src"] else langs
    return NamedCorpus(match["kind"], match["id"], stated)


def _write_lines(name: str, lines: Iterable[tuple[bytes, bytes]], folder: Path) -> int:
    count = 0
    with (folder / SOURCE).open("wb") as source, (folder / TARGET).open("wb") as target:
        for pair in lines:
            source.write(pair[0] + b"\n")
            target.write(pair[1] + b"\n")
            count += 1
    if not count:
        raise DataError(f"{name}: has no lines")
    return count


def _paired(name: str, *sides: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    try:
        yield from ((src.rstrip(b"\r\n"), tgt.rstrip(b"\r\n")) for src, tgt in zip(*sides, strict=True))
    except ValueError as error:
        raise DataError(f"{name}: its two sides have different numbers of lines") from error
    except (EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{name}: what was downloaded is damaged: {error}") from error


def _unknown(named: NamedCorpus, index: str, known: Iterable[str], what: str = "corpora") -> UsageError:
    """The error that an index lacks a corpus, with the most similar names that it has."""
    known = sorted(set(known))
    similar = difflib.get_close_matches(named.id, known, n=6, cutoff=0.4) or known[:6]
    pair = f" of {' and '.join(named.langs)}"
    return UsageError(f"{named.name}: {index} has no such text{pair}; {what}: {', '.join(similar) or 'none'}")


def _sacrebleu(named: NamedCorpus, progress: Progress) -> Download:
    """A test set of sacreBLEU, with its first reference, from sacreBLEU's own folder or the network."""
    from sacrebleu.dataset import DATASETS

    pair = "-".join(named.langs)
    dataset: Any = DATASETS.get(named.id)
    if dataset is None:
        raise _unknown(named, "sacreBLEU", (name for name, each in DATASETS.items() if pair in each.langpairs))
    if pair not in dataset.langpairs:
        raise _unknown(named, "sacreBLEU", dataset.langpairs, "its pairs of languages")
    try:
        files = dataset.get_source_file(pair), dataset.get_reference_files(pair)[0]
    except (Exception, SystemExit) as error:  # it ends the process after a wrong checksum
        raise ReadWriteError(printable(f"sacreBLEU: {error}", 300)) from error
    with translate_read_errors(Path(files[0])):
        sides = [Path(file).read_bytes().removesuffix(b"\n").split(b"\n") for file in files]
    return Download(_paired(named.name, *sides), ", ".join(dataset.data))


def _opus(named: NamedCorpus, progress: Progress) -> Download:
    """A corpus of OPUS, NAME or NAME/VERSION, by the index of opustools, in lines as Moses reads them."""
    with require_extra("data", "opustools"):
        import opustools
        from opustools.db_operations import DbOperations

        from mtkit.io.fetch import fetch_file
    name, _, version = named.id.partition("/")
    wanted = {"source": named.langs[0], "target": named.langs[1], "preprocessing": "moses"}
    with TemporaryDirectory() as folder:
        index = Path(folder) / "index.db"
        packed = Path(opustools.__file__).with_name("opusdata.db.gz")
        with gzip.open(packed) as content, index.open("wb") as file:
            shutil.copyfileobj(content, file)
        database = DbOperations(db_file=str(index))
        rows = database.get_corpora({"corpus": name, "version": version or "latest", **wanted})
        if not rows:
            raise _unknown(named, "OPUS", database.run_corpora_query({**wanted}))
    archive = named.folder.with_name(f"{named.folder.name}.zip")
    fetch_file(rows[0]["url"], archive, None, progress=progress)
    return Download(_archived(named, archive), rows[0]["url"], _licence_in(archive))


def _archived(named: NamedCorpus, archive: Path) -> Iterator[tuple[bytes, bytes]]:
    """The lines of both languages in an archive, which is removed in the end."""
    with translate_read_errors(archive), ExitStack() as stack:
        try:
            content = stack.enter_context(zipfile.ZipFile(archive))
            members = [next(name for name in content.namelist() if name.endswith(f".{lang}")) for lang in named.langs]
            sides = [stack.enter_context(content.open(name)) for name in members]
        except (zipfile.BadZipFile, StopIteration) as error:
            raise DataError(f"{archive}: not an archive with both sides; delete it, and try again") from error
        yield from _paired(named.name, *sides)
    archive.unlink()


def _licence_in(archive: Path) -> str | None:
    """The first words of the licence in an archive."""
    try:
        with zipfile.ZipFile(archive) as content:
            text = content.read("LICENSE")[: 1 << 16].decode(errors="replace")
    except (KeyError, zipfile.BadZipFile):
        return None
    return " ".join(text.split())[:_MAX_LICENCE] or None


def _mtdata(named: NamedCorpus, progress: Progress) -> Download:
    """A corpus of mtdata, GROUP-NAME-VERSION-SRC-TGT, which runs as a program of its own."""
    if importlib.util.find_spec(named.kind) is None:
        raise MissingExtraError("", named.kind)
    return Download(_rows(named), f"mtdata, {named.id}")


def _rows(named: NamedCorpus) -> Iterator[tuple[bytes, bytes]]:
    command = [sys.executable, "-m", named.kind, "--no-pbar", "-ll", "ERROR", "echo", named.id]
    given = named.id.split("-")[-2:]
    is_swapped = is_language(given[0], named.langs[1]) and not is_language(given[0], named.langs[0])
    folder = data_folder() / named.kind
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "MTDATA": str(folder)}
    with (
        TemporaryFile() as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as process,
    ):
        for columns in (line.rstrip(b"\r\n").split(b"\t") for line in process.stdout or ()):
            if len(columns) > 1:
                yield (columns[1], columns[0]) if is_swapped else (columns[0], columns[1])
        process.wait()
        errors.seek(0)
        said = [line for line in errors.read().decode(errors="replace").split("\n") if line.strip()]
    if process.returncode:
        raise ReadWriteError(printable(f"mtdata: {said[-1].strip() if said else process.returncode}", 300))


KINDS: dict[str, Callable[[NamedCorpus, Progress], Download]] = {
    "sacrebleu": _sacrebleu,
    "opus": _opus,
    "mtdata": _mtdata,
}
_NAME = re.compile(rf"(?P<kind>{'|'.join(KINDS)}):(?P<id>\w[\w./+-]*)(?:#(?P<src>[^#,/]+),(?P<tgt>[^#,/]+))?")
