"""The binary corpus on disk: a folder of named columns, read through memory maps and written block by block."""

from __future__ import annotations

import hashlib
import mmap
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.order.ragged import Ragged, lengths_to_offsets
from mtkit.errors import DamagedError
from mtkit.io.files import changed_files, translate_read_errors
from mtkit.io.records import read_record, write_record
from mtkit.text.subword.tokenizer import Side
from mtkit.text.vocab import Vocab

FORMAT = 2  # increased when older programs can no longer read a store
MANIFEST = "manifest.json"

SIDES: tuple[Side, Side] = ("src", "tgt")


@dataclass(frozen=True)
class Column:
    """One flat array in a file of its own, little-endian."""

    dtype: str
    elements: int
    sha256: str


@dataclass(frozen=True)
class SideStats:
    """Statistics of one side of a corpus, stored in the manifest.

    Attributes:
        sha256: hash of that file.
        num_tokens: tokens in all sentences, without eos.
        max_length: tokens of the longest sentence, without eos.
        max_length_line: line number of the longest sentence in the text file, from 1.
    """

    path: str
    sha256: str
    vocab: Vocab
    num_tokens: int
    max_length: int
    max_length_line: int


@dataclass(frozen=True)
class Manifest:
    """The metadata of a store.

    Attributes:
        samples: number of sentence pairs.
        tokenizer: hash of the tokenizer pair.
        columns: columns by name; the file of column NAME is NAME.bin.
        cleaning: the filters that were applied, or None.
        report: the pairs that they dropped (see CleaningReport).
        prefix: ids that every source begins with, from the tag and prefix of the corpus.
        tgt_prefix: ids that every target begins with, such as the token of its language.
        limit: lines of the files that were used; None: all.
    """

    samples: int
    tokenizer: str
    src: SideStats
    tgt: SideStats
    columns: Mapping[str, Column]
    cleaning: Mapping[str, Any] | None
    report: Mapping[str, Any]
    prefix: tuple[int, ...] = ()
    tgt_prefix: tuple[int, ...] = ()
    limit: int | None = None

    def prefix_of(self, side: Side) -> tuple[int, ...]:
        """The ids that every text of a side begins with."""
        return self.prefix if side == "src" else self.tgt_prefix

    def write(self, folder: Path) -> None:
        """Write the file that `read_manifest` reads.

        Raises:
            ReadWriteError: the file cannot be written.
        """
        write_record(folder / MANIFEST, {"format": FORMAT, **asdict(self)})


class Store:
    """A binary corpus: sentence pairs 0 ... len - 1 with their ids, normalised texts and line numbers.

    Opening reads the manifest and compares the sizes of the files; `verify` reads everything.

    Raises:
        MissingInputError: the folder or its manifest does not exist.
        DamagedError: the manifest or a column is damaged, or was written by a newer version.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        self._mapped: list[mmap.mmap] = []
        self._ids = {side: self._ragged(f"{side}.ids") for side in SIDES}
        self._text = {side: self._ragged(f"{side}.text") for side in SIDES}
        self._lines = self._column("line")

    def __len__(self) -> int:
        return self.manifest.samples

    def ids(self, side: Side) -> Ragged:
        """The token ids of each sentence with its prefix, without bos and eos; uint16 or uint32."""
        return self._ids[side]

    def text(self, side: Side, sample: int) -> str:
        """The normalised text of a sentence, without the prefix."""
        return self._text[side][sample].tobytes().decode()

    def line(self, sample: int) -> int:
        """The line number, from 1, of the pair in the text files."""
        return int(self._lines[sample])

    def stats(self, side: Side) -> SideStats:
        """The statistics of a side, from the manifest."""
        return self.manifest.src if side == "src" else self.manifest.tgt

    def release_pages(self) -> None:
        """Give back the memory of what was read; the next access reads it from the file again."""
        if sys.platform != "win32":
            for mapped in self._mapped:
                mapped.madvise(mmap.MADV_DONTNEED)

    def verify(self) -> None:
        """Read every column and compare its hash with the manifest.

        Raises:
            DamagedError: names all columns that were changed.
        """
        hashes = {f"{name}.bin": column.sha256 for name, column in self.manifest.columns.items()}
        if damaged := changed_files(self.folder, hashes):
            raise DamagedError(f"{self.folder}: damaged: {', '.join(damaged)}", _REMEDY)

    def _ragged(self, name: str) -> Ragged:
        flat, offsets = self._column(name), self._column(f"{name}.offsets")
        if len(offsets) != len(self) + 1 or offsets[0] != 0 or offsets[-1] != len(flat):
            raise DamagedError(f"{self.folder / name}.offsets.bin: does not match {name}.bin", _REMEDY)
        return Ragged(flat, offsets)

    def _column(self, name: str) -> NDArray[Any]:
        path = self.folder / f"{name}.bin"
        if name not in self.manifest.columns:
            raise DamagedError(f"{self.folder / MANIFEST}: column {name} is missing", _REMEDY)
        column = self.manifest.columns[name]
        dtype = np.dtype(column.dtype)
        size = path.stat().st_size if path.is_file() else 0
        if size != column.elements * dtype.itemsize:
            raise DamagedError(f"{path}: {size} bytes instead of {column.elements * dtype.itemsize}", _REMEDY)
        if not size:
            return np.empty(0, dtype=dtype)  # an empty file cannot be mapped
        with translate_read_errors(path), path.open("rb") as file:
            self._mapped.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return np.frombuffer(self._mapped[-1], dtype)


_REMEDY = "rebuild it with mtkit preprocess"


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a binary corpus.

    Raises:
        MissingInputError: there is none.
        DamagedError: it is damaged, or was written in another format.
    """
    path = folder / MANIFEST
    fields = read_record(path, remedy=_REMEDY)
    try:
        version = fields.pop("format")
        if version == FORMAT:
            sides = {side: SideStats(**fields[side] | {"vocab": Vocab(**fields[side]["vocab"])}) for side in SIDES}
            columns = {name: Column(**column) for name, column in fields["columns"].items()}
            prefixes = {name: tuple(map(int, fields.get(name, ()))) for name in ("prefix", "tgt_prefix")}
            return Manifest(**fields | sides | prefixes | {"columns": columns})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{path}: damaged: not the manifest of a corpus", _REMEDY) from error
    raise DamagedError(f"{path}: has format {version}, this mtkit reads format {FORMAT}", _REMEDY)


class ColumnWriter:
    """Appends arrays to the file of one column.

    Attributes:
        elements: written so far.
    """

    def __init__(self, path: Path, dtype: Any, files: ExitStack) -> None:
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._file = files.enter_context(path.open("wb"))
        self._digest = hashlib.sha256()
        self.elements = 0

    def append(self, values: NDArray[Any]) -> None:
        """Write the next elements [N]."""
        block = np.ascontiguousarray(values, dtype=self._dtype)
        self._file.write(block.data)
        self._digest.update(block.data)
        self.elements += len(block)

    def finish(self) -> Column:
        """The manifest entry of the column."""
        return Column(self._dtype.str, self.elements, self._digest.hexdigest())


class StoreWriter:
    """Writes the columns of a store into an existing folder; the caller writes the manifest.

    Attributes:
        max_lengths: by side, (tokens, line number) of the longest sentence so far.
        num_tokens: by side, tokens written so far.
    """

    def __init__(self, folder: Path, vocab_sizes: dict[Side, int]) -> None:
        self.samples = 0
        self.max_lengths: dict[Side, tuple[int, int]] = dict.fromkeys(SIDES, (0, 0))
        self.num_tokens: dict[Side, int] = dict.fromkeys(SIDES, 0)
        self._files = ExitStack()
        rows = {f"{side}.ids": id_type(vocab_sizes[side]) for side in SIDES}
        rows |= {f"{side}.text": np.uint8 for side in SIDES}
        types: dict[str, Any] = {}
        for name, dtype in rows.items():
            types |= {name: dtype, f"{name}.offsets": np.int64}
        types["line"] = np.int64
        self._columns = {
            name: ColumnWriter(folder / f"{name}.bin", dtype, self._files) for name, dtype in types.items()
        }
        for name in rows:
            self._columns[f"{name}.offsets"].append(np.zeros(1, dtype=np.int64))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()

    def append(
        self,
        ids: dict[Side, Sequence[Sequence[int]]],
        texts: dict[Side, Sequence[str]],
        line_numbers: NDArray[np.int64],
    ) -> None:
        """Write the next pairs: token ids, normalised texts, and their line numbers [N] in the text files."""
        for side in SIDES:
            rows = Ragged.of(ids[side])
            encoded = [text.encode() for text in texts[side]]
            offsets = lengths_to_offsets(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
            text_rows = Ragged(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)
            for name, new in ((f"{side}.ids", rows), (f"{side}.text", text_rows)):
                self._columns[f"{name}.offsets"].append(new.offsets[1:] + self._columns[name].elements)
                self._columns[name].append(new.flat)
            self.num_tokens[side] += len(rows.flat)
            if len(rows):
                longest = int(rows.lengths.argmax())
                if len(rows[longest]) > self.max_lengths[side][0]:
                    self.max_lengths[side] = (len(rows[longest]), int(line_numbers[longest]))
        self._columns["line"].append(line_numbers)
        self.samples += len(line_numbers)

    def columns(self) -> dict[str, Column]:
        """The manifest entries of all columns."""
        return {name: column.finish() for name, column in self._columns.items()}


def id_type(vocab_size: int) -> Any:
    """The smallest integer type that holds every id."""
    return np.uint16 if vocab_size <= np.iinfo(np.uint16).max + 1 else np.uint32
