"""Random numbers for rows of unequal length, all rows at once; those of a row depend on its own key alone.

So what is drawn for a sentence is the same in whatever company it comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.order.hash_rng import keyed, keyed_array, unit
from mtkit.corpus.order.ragged import offsets_of

Flags = NDArray[np.bool_]


Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Draws:
    """Draws for R rows.

    Every method takes a `stream`: other numbers come out for every other one.

    Attributes:
        keys: [R] 64 random bits for each row.
    """

    keys: NDArray[np.uint64]

    @classmethod
    def of(cls, seed: int, samples: Ints, turns: Ints) -> Draws:
        """For samples [R] of a corpus, each at its turn [R] (how often it was seen before)."""
        return cls(keyed_array(keyed(seed), keyed_array(seed, samples) ^ turns.astype(np.uint64)))

    def units(self, lengths: Ints, stream: int) -> NDArray[np.float64]:
        """`lengths` [R] numbers for each row, one row after another, from 0 to less than 1."""
        row, place = places(lengths)
        return unit(keyed_array(keyed(stream), self.keys[row] + place.astype(np.uint64)))

    def some(self, lengths: Ints, counts: Ints, stream: int) -> Flags:
        """For rows of `lengths` [R] elements, flat: True at `counts` [R] of each, every choice equally likely."""
        row, place = places(lengths)
        order = np.lexsort((self.units(lengths, stream), row))
        chosen = np.zeros(len(row), dtype=bool)
        chosen[order] = place < counts[row]  # sorting leaves every row where it is
        return chosen

    def parts(self, lengths: Ints, counts: Ints, stream: int) -> Ints:
        """Cut rows of `lengths` [R] elements into `counts` [R] parts; gives the parts' lengths, flat.

        No part is empty, but where there is nothing to cut; every way of cutting is equally likely.
        """
        row, place = places(lengths)
        begins = np.zeros(len(row), dtype=bool)  # a further part of its row
        begins[place > 0] = self.some(np.maximum(lengths - 1, 0), counts - 1, stream)
        before = offsets_of(np.bincount(row[begins], minlength=len(lengths)))[:-1]  # [R] such in rows above
        part = offsets_of(counts)[:-1][row] + np.cumsum(begins) - before[row]
        return np.bincount(part, minlength=int(counts.sum()))


class Places(NamedTuple):
    """Of every element of rows that lie flat: its row, and its place there."""

    row: Ints
    place: Ints


def places(lengths: Ints) -> Places:
    """Where the elements of rows of these lengths [R] are."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return Places(row, np.arange(len(row)) - np.repeat(offsets_of(lengths)[:-1], lengths))
