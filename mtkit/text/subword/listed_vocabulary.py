"""A vocabulary that is a list of names, with those methods of SentencePieceProcessor that Tokenizer calls."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from mtkit.text.special_tokens import SPECIAL_TOKENS

PAD, UNK, BOS, EOS = range(4)
CONTROL = ("<pad>", "<unk>", "<s>", "</s>", *SPECIAL_TOKENS)
UNKNOWN_TEXT = "\u2047 "  # of the unknown token, which ends a word
_MAX_CACHED_WORDS = 1 << 20
_UNUSED = b"#unused: "  # begins a line with the number of tokens that pad the vocabulary


class ListedVocabulary(ABC):
    """Control tokens, the tokens of words, and unused tokens that pad the vocabulary."""

    def __init__(self, names: Iterable[str], *, num_unused: int) -> None:
        """Number the names; a repeated one counts once."""
        self._names = list(dict.fromkeys((*CONTROL, *names)))
        self._first_unused = len(self._names)
        known = set(self._names)
        number = 0
        while len(self._names) < self._first_unused + num_unused:
            if (name := f"<unused{number}>") not in known:
                self._names.append(name)
            number += 1
        self._ids = {name: token_id for token_id, name in enumerate(self._names)}
        self._segment_cached = lru_cache(_MAX_CACHED_WORDS)(lambda word: self._segment(word, lambda: False))

    @abstractmethod
    def _words(self, line: str) -> Iterable[str]:
        """The words of a line."""

    @abstractmethod
    def _segment(self, word: str, skips: Callable[[], bool]) -> list[str]:
        """The tokens of a word; `skips` returns whether the next applicable step of the segmentation is skipped."""

    def encode(self, lines: Sequence[str], *, num_threads: int = 1, out_type: type = int) -> Any:
        """The ids of each line, or with `out_type` str its tokens; an unknown word may be a token of its own."""
        tokens = [[token for word in self._words(line) for token in self._segment_cached(word)] for line in lines]
        return tokens if out_type is str else [self.to_ids(each) for each in tokens]

    def sample(self, line: str, *, seed: int, alpha: float) -> list[int]:
        """The ids of a line, of whose segmentation every step is skipped with probability alpha."""
        draw = random.Random(seed).random
        words = self._words(line)
        return self.to_ids(token for word in words for token in self._segment(word, lambda: draw() < alpha))

    def get_piece_size(self) -> int:
        """Size of the vocabulary."""
        return len(self._names)

    def pad_id(self) -> int:
        """Id of the padding token."""
        return PAD

    def unk_id(self) -> int:
        """Id of the unknown token."""
        return UNK

    def bos_id(self) -> int:
        """Id of the beginning of a sentence."""
        return BOS

    def eos_id(self) -> int:
        """Id of the end of a sentence."""
        return EOS

    def is_byte(self, token_id: int) -> bool:
        """Return whether a token is a byte; none is."""
        return False

    def is_control(self, token_id: int) -> bool:
        """Return whether no text produces a token."""
        return (token_id < len(CONTROL) and token_id != UNK) or token_id >= self._first_unused

    def id_to_piece(self, ids: Sequence[int] | int) -> Any:
        """The name of a token, or of each token."""
        return self._names[ids] if isinstance(ids, int) else [self._names[token_id] for token_id in ids]

    def piece_to_id(self, names: Sequence[str] | str) -> Any:
        """The id of a name, or of each name; that of the unknown token if there is none."""
        if isinstance(names, str):
            return self._ids.get(names, UNK)
        return [self._ids.get(name, UNK) for name in names]

    def text_names(self, tokens: Sequence[int | str]) -> list[str]:
        """The names of ids or names without control tokens; a name that the vocabulary lacks is kept."""
        names = [token if isinstance(token, str) else self._names[token] for token in tokens]
        return [name for name in names if self._ids.get(name, UNK) == UNK or not self.is_control(self._ids[name])]

    def to_ids(self, names: Iterable[str]) -> list[int]:
        """The id of each name; that of the unknown token if there is none."""
        return [self._ids.get(name, UNK) for name in names]


def with_unused(content: bytes, count: int) -> bytes:
    """The content of a file with a header, with unused tokens that pad its vocabulary, as its second line."""
    header, _, rest = content.partition(b"\n")
    return header + b"\n" + _UNUSED + str(count).encode() + b"\n" + rest


def split_unused(lines: list[str]) -> tuple[int, list[str]]:
    """The number of unused tokens, and the lines after the header without it."""
    mark = _UNUSED.decode()
    if lines and lines[0].startswith(mark) and lines[0].removeprefix(mark).isdecimal():
        return int(lines[0].removeprefix(mark)), lines[1:]
    return 0, lines
