"""Writing a binary corpus block by block, so that memory does not grow with the corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.order.ragged import Ragged, lengths_to_offsets
from mtkit.corpus.store import SIDES, Column
from mtkit.text.subword.tokenizer import Side


class ColumnWriter:
    """Appends arrays to the file of one column."""

    def __init__(self, path: Path, dtype: Any, files: ExitStack) -> None:
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._file = files.enter_context(path.open("wb"))
        self._digest = hashlib.sha256()
        self._elements = 0

    def append(self, values: NDArray[Any]) -> None:
        """Write the next elements [N]."""
        block = np.ascontiguousarray(values, dtype=self._dtype)
        self._file.write(block.data)
        self._digest.update(block.data)
        self._elements += len(block)

    def finish(self) -> Column:
        """The manifest entry of the column."""
        return Column(self._dtype.str, self._elements, self._digest.hexdigest())


class RaggedWriter:
    """Appends rows of unequal length to a column and its offsets."""

    def __init__(self, flat: ColumnWriter, offsets: ColumnWriter) -> None:
        self._flat, self._offsets = flat, offsets
        self._end = 0
        offsets.append(np.zeros(1, dtype=np.int64))

    def append(self, rows: Ragged) -> None:
        """Write the next rows [N]."""
        self._flat.append(rows.flat)
        self._offsets.append(rows.offsets[1:] + self._end)
        self._end += len(rows.flat)


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
        self,
        ids: dict[Side, Sequence[Sequence[int]]],
        texts: dict[Side, Sequence[str]],
        line_numbers: NDArray[np.int64],
    ) -> None:
        """Write the next pairs: token ids, normalised texts, and their line numbers [N] in the text files."""
        for side in SIDES:
            rows = Ragged.of(ids[side])
            self._ids[side].append(rows)
            self._text[side].append(_encode_texts(texts[side]))
            self.num_tokens[side] += len(rows.flat)
            if len(rows):
                longest = int(rows.lengths.argmax())
                if len(rows[longest]) > self.max_lengths[side][0]:
                    self.max_lengths[side] = (len(rows[longest]), int(line_numbers[longest]))
        self._line.append(line_numbers)
        self.samples += len(line_numbers)

    def columns(self) -> dict[str, Column]:
        """The manifest entries of all columns."""
        return {name: column.finish() for name, column in self._columns.items()}

    def _column(self, name: str, dtype: Any) -> ColumnWriter:
        self._columns[name] = ColumnWriter(self._folder / f"{name}.bin", dtype, self._files)
        return self._columns[name]

    def _ragged(self, name: str, dtype: Any) -> RaggedWriter:
        return RaggedWriter(self._column(name, dtype), self._column(f"{name}.offsets", np.int64))


def id_type(vocab_size: int) -> Any:
    """The smallest integer type that holds every id."""
    return np.uint16 if vocab_size <= np.iinfo(np.uint16).max + 1 else np.uint32


def _encode_texts(texts: Sequence[str]) -> Ragged:
    encoded = [text.encode() for text in texts]
    offsets = lengths_to_offsets(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
    return Ragged(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)
