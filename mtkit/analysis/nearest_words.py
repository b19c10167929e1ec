"""Nearest words and analogies among word vectors of a text file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import DataError, UsageError
from mtkit.io.files import require_regular_file
from mtkit.text.lines import read_lines
from mtkit.text.word_vectors import is_number, require_all_vectors

MAX_WORDS = 1_000_000  # read from a file, the first ones; 1.2 GB with 300 numbers each


class Neighbour(NamedTuple):
    """A word and its cosine similarity to what was asked for, -1 to 1."""

    word: str
    similarity: float


@dataclass(frozen=True)
class WordVectors:
    """Words with their vectors divided by their lengths, [N, D] float32."""

    path: Path
    words: Sequence[str]
    values: NDArray[np.float32]

    @classmethod
    def read(cls, path: Path) -> WordVectors:
        """Read a file in the text format of word2vec or GloVe, plain or compressed.

        Some words of GloVe contain spaces; the first one of a file without a header may not.

        Raises:
            DataError: a line is no word with as many numbers as the first line has or states, or the first line states
                more vectors than there are.
            MissingInputError, ReadWriteError: as `read_lines`.
        """
        require_regular_file(path)
        words: list[str] = []
        rows: list[NDArray[np.float32]] = []
        dim, stated = 0, 0
        for number, line in enumerate(read_lines(path), 1):
            word, fields = _split(line, dim)
            if number == 1 and len(fields) == 1 and word.isdigit() and fields[0].isdigit():
                dim, stated = int(fields[0]), int(word)
                continue
            try:
                row = np.array(fields, dtype=np.float32)
            except ValueError:
                row = np.empty(0, dtype=np.float32)
            if not row.size or (dim and row.size != dim) or not np.isfinite(row).all():
                expected = f"{dim} finite numbers" if dim else "finite numbers"
                raise DataError(f"{path}:{number}: expected a word and {expected}, separated by spaces")
            dim = row.size
            words.append(word)
            rows.append(row)
            if len(rows) == MAX_WORDS:
                break
        if not rows:
            raise DataError(f"{path}: has no vectors")
        require_all_vectors(path, len(rows), min(stated, MAX_WORDS))
        values = np.stack(rows)
        return cls(path, words, values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12))

    def nearest(self, word: str, count: int) -> list[Neighbour]:
        """The `count` words with the largest cosine similarity to a word, itself not among them.

        Raises:
            UsageError: the file has no vector for the word.
        """
        return self._nearest(self._of(word), {word}, count)

    def analogy(self, a: str, b: str, c: str, count: int) -> list[Neighbour]:
        """Words that are to c as b is to a: the nearest to b - a + c, none of the three among them.

        Mikolov, Yih & Zweig 2013, sec. 4, with vectors of length 1. https://aclanthology.org/N13-1090

        Raises:
            UsageError: the file has no vector for one of the words.
        """
        return self._nearest(self._of(b) - self._of(a) + self._of(c), {a, b, c}, count)

    def _of(self, word: str) -> NDArray[np.float32]:
        try:
            vector: NDArray[np.float32] = self.values[self.words.index(word)]
        except ValueError:
            same = next((known for known in self.words if known.lower() == word.lower()), None)
            hint = "the text has it too rarely, or not at all" if same is None else f"did you mean {same!r}?"
            raise UsageError(f"{self.path}: has no vector for {word!r}; {hint}") from None
        return vector

    def _nearest(self, vector: NDArray[np.float32], excluded: set[str], count: int) -> list[Neighbour]:
        similarity = self.values @ (vector / max(float(np.linalg.norm(vector)), 1e-12))  # [N]
        best = np.argsort(-similarity, kind="stable")[: count + len(excluded)]
        found = [Neighbour(self.words[i], float(similarity[i])) for i in best if self.words[i] not in excluded]
        return found[:count]


def _split(line: str, dim: int) -> tuple[str, list[str]]:
    """The word of a line, which may contain spaces, and its numbers; `dim` is 0 if their count is not known."""
    word, *fields = line.rstrip(" ").split(" ")
    if dim and len(fields) > dim and not is_number(fields[0]):  # too many numbers are an error, not a longer word
        return " ".join([word, *fields[:-dim]]), fields[-dim:]
    return word, fields
