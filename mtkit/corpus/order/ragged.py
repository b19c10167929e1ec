"""Ragged arrays: rows of unequal length in one flat array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Ragged:
    """R rows; row r is `flat[offsets[r]:offsets[r + 1]]`.

    Attributes:
        flat: the concatenated rows, any integer type; may be memory-mapped.
        offsets: [R + 1] int64, not decreasing.
    """

    flat: NDArray[Any]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Ragged | Sequence[Sequence[int]], dtype: Any = np.int32) -> Ragged:
        """Pack a list of rows; a Ragged is returned unchanged."""
        if isinstance(rows, Ragged):
            return rows
        offsets = lengths_to_offsets(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)))
        return cls(np.fromiter(chain.from_iterable(rows), dtype=dtype, count=int(offsets[-1])), offsets)

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of all parts in order."""
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.flat for part in parts]), lengths_to_offsets(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        return self.flat[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[R] the length of each row."""
        return np.diff(self.offsets)

    def take(self, rows: NDArray[np.integer[Any]]) -> Ragged:
        """The rows [N], in that order, copied."""
        starts = self.offsets[rows]
        offsets = lengths_to_offsets(self.offsets[rows + 1] - starts)
        index = np.repeat(starts - offsets[:-1], np.diff(offsets)) + np.arange(offsets[-1])
        return Ragged(np.asarray(self.flat[index]), offsets)

    def with_first(self, ids: Sequence[int]) -> Ragged:
        """Every row with the same ids before it."""
        if not ids:
            return self
        lengths = self.lengths + len(ids)
        offsets = lengths_to_offsets(lengths)
        flat = np.empty(offsets[-1], dtype=self.flat.dtype)
        is_first = np.arange(len(flat)) - np.repeat(offsets[:-1], lengths) < len(ids)
        flat[is_first], flat[~is_first] = np.tile(np.asarray(ids), len(self)), self.flat
        return Ragged(flat, offsets)

    def without_first(self, count: int) -> Ragged:
        """Every row without its first ids; each has at least `count`."""
        if not count:
            return self
        index = np.arange(len(self.flat)) - np.repeat(self.offsets[:-1], self.lengths)
        return Ragged(np.asarray(self.flat)[index >= count], lengths_to_offsets(self.lengths - count))

    def padded(self, *, pad: int, before: int | None = None, after: int | None = None) -> NDArray[np.int64]:
        """[R, longest row plus one for each of `before` and `after`, the ids around each row], padded on the right."""
        lengths = self.lengths
        shift = before is not None
        width = int(lengths.max(initial=0)) + shift + (after is not None)
        out = np.full((len(self), width), pad, dtype=np.int64)  # [R, width]
        out[:, shift:width][np.arange(width - shift) < lengths[:, None]] = self.flat
        if before is not None:
            out[:, 0] = before
        if after is not None:
            out[np.arange(len(self)), lengths + shift] = after
        return out


def lengths_to_offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[R + 1] the start of each row and the end of the last one, for rows of these lengths [R]."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
