"""A corpus of short sentences, and a tokenizer without sentencepiece that has a token for every word."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mtkit.corpus.binarise import binarise
from mtkit.corpus.store import Store
from mtkit.text.config import TokenizerConfig
from mtkit.text.vocab import Vocab


@dataclass
class WordTokenizer:
    """One token per word; sampling splits words into halves at random."""

    vocab: Vocab = field(default_factory=lambda: Vocab(size=1000, pad=0, unk=1, bos=2, eos=3))

    def normalise(self, line: str) -> str:
        return line.replace("▁", "_")

    def token(self, word: str) -> int:
        return 4 + int(hashlib.sha256(word.encode()).hexdigest(), 16) % (self.vocab.size - 4)

    def encode(self, lines: list[str], *, threads: int = 1) -> list[list[int]]:
        return [[self.token(word) for word in line.split()] for line in lines]

    def sample(self, line: str, *, seed: int, alpha: float) -> list[int]:
        rng = random.Random(f"{line} {seed}")
        halves = [
            half
            for word in line.split()
            for half in ((word[:1], word[1:]) if rng.random() < alpha and len(word) > 1 else (word,))
        ]
        return [self.token(half) for half in halves]


@dataclass
class WordTokenizers:
    src: WordTokenizer = field(default_factory=WordTokenizer)
    tgt: WordTokenizer = field(default_factory=WordTokenizer)
    name: str = "words"
    config: TokenizerConfig = field(default_factory=TokenizerConfig)

    def of(self, side: str) -> WordTokenizer:
        return self.src if side == "src" else self.tgt

    def hash(self) -> str:
        return self.name

    def encode_pairs(self, src: list[str], tgt: list[str], *, threads: int = 1) -> tuple[list[list[int]], ...]:
        return self.src.encode(src), self.tgt.encode(tgt)

    def copy_ids(self, side: str) -> frozenset[int]:
        return frozenset()

    def prepare(self, side: str, line: str) -> str:
        return (self.src if side == "src" else self.tgt).normalise(line)


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def sentences(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [
        " ".join(rng.choice(["one", "two", "three", "four"]) for _ in range(rng.randint(1, 20))) + f" n{number}"
        for number in range(count)
    ]


@pytest.fixture
def tokenizers():
    return WordTokenizers()


@pytest.fixture
def make_store(tmp_path, tokenizers):
    """make_store(count, seed): a store of `count` pairs."""

    def make(count: int, seed: int = 0) -> Store:
        src = write_lines(tmp_path / f"{seed}.src", sentences(count, 2 * seed))
        tgt = write_lines(tmp_path / f"{seed}.tgt", sentences(count, 2 * seed + 1))
        binarise(src, tgt, tmp_path / f"store{seed}", tokenizers, None)
        return Store(tmp_path / f"store{seed}")

    return make


@pytest.fixture
def write():
    """write(path, lines) -> path."""
    return write_lines
