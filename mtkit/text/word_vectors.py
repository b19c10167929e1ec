"""Pre-trained word vectors from text files, matched to the tokens of a vocabulary.

The format is that of word2vec (Mikolov et al. 2013): an optional header line `WORDS DIMENSIONS` (absent in GloVe), then
a word and its vector on each line, separated by single spaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import DataError
from mtkit.io.files import require_regular_file
from mtkit.text.lines import read_lines
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.subword.listed_vocabulary import CONTINUES
from mtkit.text.subword.tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenVectors:
    """Vectors for some tokens of a vocabulary.

    Attributes:
        ids: [N] tokens with a vector, ascending.
        values: [N, D] their vectors, float32.
        num_tokens: number of text tokens in the vocabulary.
        num_words: number of words in the file.
    """

    ids: NDArray[np.int64]
    values: NDArray[np.float32]
    num_tokens: int
    num_words: int


class _VectorMatcher:
    """The candidate words of each token, and the best vector of each token so far.

    Attributes:
        candidates: by word, the tokens that its vector can serve, each with the rank of the match: 0 is best.
    """

    def __init__(self) -> None:
        self.candidates: dict[str, list[tuple[int, int]]] = {}
        self.ranks: dict[int, int] = {}
        self.values: dict[int, NDArray[np.float32]] = {}

    def add_candidate(self, word: str, token: int, rank: int) -> None:
        if word:
            self.candidates.setdefault(word, []).append((token, rank))

    def add_vector(self, word: str, value: NDArray[np.float32]) -> None:
        for token, rank in self.candidates.get(word, ()):
            if rank < self.ranks.get(token, rank + 1):  # among equal ranks the first word, which is the most frequent
                self.ranks[token], self.values[token] = rank, value


def read_token_vectors(path: Path, tokenizer: Tokenizer, dim: int) -> TokenVectors:
    """The vectors of a file for the tokens of a tokenizer; memory grows with the vocabulary, not with the file.

    A file of subword vectors (one with U+2581 in it, or @@ for BPE codes) is matched token by token. Any other file has
    word vectors: a token that starts a word (of BPE codes: that ends one) is matched with that word, else with the word
    in lower case. Other tokens are not matched, unless they have no letters: full stops and numbers stand alone in such
    files.

    Raises:
        DataError: vectors of another dimension, a line that is no vector, or no match; names the line.
        MissingInputError, ReadWriteError: as `read_lines`.
    """
    subwords, whole_words = _VectorMatcher(), _VectorMatcher()  # for files of subwords and for files of words
    not_text = {*tokenizer.special_ids, tokenizer.vocab.unk}
    names, surfaces = tokenizer.ids_to_tokens(range(tokenizer.vocab.size)), tokenizer.token_bytes()
    for token, name in enumerate(names):
        if token in not_text:
            continue
        subwords.add_candidate(name, token, 0)
        # the name, apart from marks and letters that stand for bytes
        surface = surfaces[token].decode(errors="replace")
        if SPACE_MARK in (surface[:1], surface[-1:]) or not any(map(str.isalpha, surface)):
            word = surface.strip(SPACE_MARK)
            whole_words.add_candidate(word, token, 0)
            whole_words.add_candidate(word.lower(), token, 1)
    num_words, has_subwords = 0, False
    for number, word, rest in _read_entries(path, dim):
        num_words += 1
        is_subword = word.startswith(SPACE_MARK) or (tokenizer.is_codes and word.endswith(CONTINUES))
        has_subwords = has_subwords or is_subword
        if word in subwords.candidates or word in whole_words.candidates:
            value = _parse_vector(rest, dim, f"{path}:{number}")
            if value is not None:
                subwords.add_vector(word, value)
                whole_words.add_vector(word, value)
    values = (subwords if has_subwords else whole_words).values
    if not values:
        raise DataError(
            f"{path}: none of its {num_words:,} words is a token of the vocabulary; check the language of the file"
        )
    ids = sorted(values)
    num_tokens = len(names) - len(not_text)
    return TokenVectors(np.array(ids), np.stack([values[token] for token in ids]), num_tokens, num_words)


def _read_entries(path: Path, dim: int) -> Iterator[tuple[int, str, str]]:
    """Line number, word, and the rest of the line, for every vector.

    Raises:
        DataError: the first line states or has another dimension, or more vectors than the file has, or the file is
            empty.
    """
    require_regular_file(path)
    lines = read_lines(path)
    first = next(lines, "")
    word, _, rest = first.rstrip(" ").partition(" ")
    is_header = word.isdigit() and rest.isdigit()
    file_dim = int(rest) if is_header else rest.count(" ") + 1
    if not rest:
        raise DataError(f"{path}:1: not a file of word vectors: expected a word and its numbers, in text")
    if file_dim != dim:
        raise DataError(
            f"{path}:1: the vectors have {file_dim} numbers, the embeddings of this model {dim}; set model.d_model (or "
            f"model.d_embed, if the model has it) to {file_dim}, or use another file"
        )
    stated = int(word) if is_header else 0
    if not is_header:
        yield 1, word, rest
    number = 1
    for number, line in enumerate(lines, 2):
        word, _, rest = line.rstrip(" ").partition(" ")
        yield number, word, rest
    require_all_vectors(path, number - 1, stated)


def require_all_vectors(path: Path, count: int, stated: int) -> None:
    """Check that a file has as many vectors as its header states.

    Raises:
        DataError: it has fewer.
    """
    if count < stated:
        raise DataError(
            f"{path}: ends after {count:,} of the {stated:,} vectors that its first line states; the file may be "
            "incomplete: copy or download it again"
        )


def _parse_vector(rest: str, dim: int, location: str) -> NDArray[np.float32] | None:
    """The vector after a word; None if more words precede it (GloVe has some entries that contain spaces)."""
    fields = rest.split(" ")
    if len(fields) > dim and not is_number(fields[0]):
        return None
    if len(fields) != dim:
        raise DataError(f"{location}: {len(fields)} numbers follow the word instead of {dim}; the file may be damaged")
    try:
        value = np.array(fields, dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{location}: not a vector of numbers: {error}") from error
    if not np.isfinite(value).all():
        raise DataError(f"{location}: the vector has a number that is not finite; the file may be damaged")
    return value


def is_number(text: str) -> bool:
    """Return whether a field of a line belongs to the vector; a word may be a number too."""
    try:
        float(text)
    except ValueError:
        return False
    return True
