"""Writing a store, block by block, so that memory does not grow with the corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.order.ragged import Ragged, offsets_of
from mtkit.corpus.store import SIDES, Column, Side


class ColumnWriter:
    """Appends arrays to the file of one column."""

    def __init__(self, path: Path, dtype: Any, files: ExitStack) -> None:
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._file = files.enter_context(path.open("wb"))
        self._digest = hashlib.sha256()
        self._elements = 0

    def append(self, values: NDArray[Any]) -> None:
        """Write further elements [N]."""
        block = np.ascontiguousarray(values, dtype=self._dtype)
        self._file.write(block.data)
        self._digest.update(block.data)
        self._elements += len(block)

    def done(self) -> Column:
        """What the manifest says of this column."""
        return Column(self._dtype.str, self._elements, self._digest.hexdigest())


class RaggedWriter:
    """Appends rows of unequal length to a column and its offsets."""

    def __init__(self, flat: ColumnWriter, offsets: ColumnWriter) -> None:
        self._flat, self._offsets = flat, offsets
        self._end = 0
        offsets.append(np.zeros(1, dtype=np.int64))

    def append(self, rows: Ragged) -> None:
        """Write further rows [N]."""
        self._flat.append(rows.flat)
        self._offsets.append(rows.offsets[1:] + self._end)
        self._end += len(rows.flat)


class StoreWriter:
    """Writes the columns of a store into a folder that is there; the manifest is written by who knows the rest.

    Attributes:
        samples: pairs written so far.
        longest: by side, (pieces, line number) of the longest sentence so far.
        pieces: by side, pieces written so far.
    """

    def __init__(self, folder: Path, vocab_sizes: dict[Side, int]) -> None:
        self.samples = 0
        self.longest: dict[Side, tuple[int, int]] = dict.fromkeys(SIDES, (0, 0))
        self.pieces: dict[Side, int] = dict.fromkeys(SIDES, 0)
        self._folder = folder
        self._columns: dict[str, ColumnWriter] = {}
        self._files = ExitStack()
        self._ids = {side: self._ragged(f"{side}.ids", id_type(vocab_sizes[side])) for side in SIDES}
        self._text = {side: self._ragged(f"{side}.text", np.uint8) for side in SIDES}
        self._line = self._column("line", np.int64)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()

    def append(
        self, ids: dict[Side, Sequence[Sequence[int]]], texts: dict[Side, Sequence[str]], lines: NDArray[np.int64]
    ) -> None:
        """Write further pairs: their pieces, their normalised text, and the line numbers [N] they come from."""
        for side in SIDES:
            rows = Ragged.of(ids[side])
            self._ids[side].append(rows)
            self._text[side].append(_bytes(texts[side]))
            self.pieces[side] += len(rows.flat)
            if len(rows):
                place = int(rows.lengths.argmax())
                self.longest[side] = max(
                    self.longest[side], (len(rows[place]), int(lines[place])), key=lambda pieces_line: pieces_line[0]
                )
        self._line.append(lines)
        self.samples += len(lines)

    def columns(self) -> dict[str, Column]:
        """What the manifest says of the columns."""
        return {name: column.done() for name, column in self._columns.items()}

    def _column(self, name: str, dtype: Any) -> ColumnWriter:
        self._columns[name] = ColumnWriter(self._folder / f"{name}.bin", dtype, self._files)
        return self._columns[name]

    def _ragged(self, name: str, dtype: Any) -> RaggedWriter:
        return RaggedWriter(self._column(name, dtype), self._column(f"{name}.offsets", np.int64))


def id_type(vocab_size: int) -> Any:
    """The smallest type that holds every id."""
    return np.uint16 if vocab_size <= np.iinfo(np.uint16).max + 1 else np.uint32


def _bytes(texts: Sequence[str]) -> Ragged:
    encoded = [text.encode() for text in texts]
    offsets = offsets_of(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
    return Ragged(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)
