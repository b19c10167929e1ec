"""Word vectors from text: skip-gram and CBOW with negative sampling, by gensim."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mtkit.errors import DataError, require_extra
from mtkit.io.files import write_text
from mtkit.text.lines import read_lines
from mtkit.text.subword.tokenizer import Tokenizer

BLOCK_LINES = 4096  # that a tokenizer encodes at a time
_WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")  # words with inner hyphens and apostrophes, and single other marks

Architecture = Literal["skipgram", "cbow"]


@dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """Settings of word2vec; the defaults are those of Mikolov et al. 2013 unless said otherwise.

    Attributes:
        architecture: skipgram predicts the words around a word, cbow a word from those around it.
            https://arxiv.org/abs/1301.3781
        dim: numbers in a vector.
        window: largest distance of words that predict each other.
        min_count: words that occur less often have no vector.
        epochs: passes over the text; small texts need more than the usual 5.
        negative: sampled words that each prediction is compared with. https://arxiv.org/abs/1310.4546
        subsample: share of the text above which a word is left out of some sentences; 0: never. gensim's default.
        threads: more than one make the result depend on their timing.
    """

    architecture: Architecture = "skipgram"
    dim: int = 256
    window: int = 5
    min_count: int = 5
    epochs: int = 10
    negative: int = 5
    subsample: float = 1e-3
    seed: int = 1
    threads: int = 1


@dataclass(frozen=True)
class TokenisedText:
    """The lines of text files as lists of words, or of the tokens of a tokenizer; can be iterated over repeatedly."""

    files: Sequence[Path]
    tokenizer: Tokenizer | None = None

    def __iter__(self) -> Iterator[list[str]]:
        lines = itertools.chain.from_iterable(read_lines(file) for file in self.files)
        if self.tokenizer is None:
            yield from (_WORD.findall(line) for line in lines)
            return
        while block := list(itertools.islice(lines, BLOCK_LINES)):
            yield from self.tokenizer.encode_as_tokens(block)


def train_word_vectors(text: TokenisedText, path: Path, options: VectorOptions) -> int:
    """Train vectors and write them in the text format of word2vec, the most frequent word first.

    `training.word_vectors` reads such a file. Vectors of a model's own tokens match all of its frequent tokens; those
    of words only tokens that begin a word.

    Returns:
        The number of words with a vector.

    Raises:
        MissingExtraError: gensim is not installed.
        DataError: no word occurs `min_count` times.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    with require_extra("vectors", "gensim"):
        from gensim.models import Word2Vec
    model = Word2Vec(
        vector_size=options.dim,
        window=options.window,
        min_count=options.min_count,
        sg=int(options.architecture == "skipgram"),
        negative=options.negative,
        sample=options.subsample,
        seed=options.seed,
        workers=options.threads,
        epochs=options.epochs,
    )
    model.build_vocab(text)
    words: list[str] = model.wv.index_to_key
    if not words:
        names = ", ".join(map(str, text.files))
        raise DataError(f"{names}: no word occurs {options.min_count} times; lower --min-count, or give more text")
    model.train(text, total_examples=model.corpus_count, epochs=options.epochs)
    numbers = (" ".join(f"{x:.6g}" for x in vector) for vector in model.wv.vectors)
    rows = [f"{word} {vector}" for word, vector in zip(words, numbers, strict=True)]
    write_text(path, "\n".join([f"{len(words)} {options.dim}", *rows, ""]))
    return len(words)
