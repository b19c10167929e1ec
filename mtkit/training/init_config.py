"""Recipe keys of initial weights that are not random."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

ParameterGroupName = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class InitFromConfig:
    """Pre-trained model whose weights, or those of some of its parts, are the initial weights."""

    model: Path  # a model folder or a finished run
    parts: Annotated[list[ParameterGroupName], Field(min_length=1)] | None = None  # encoder, embeddings.src; null: all
    tokenizer: bool = True  # use its tokenizer too; false: the recipe's, whose tokens are matched by their strings


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig:
    """Files of word vectors in word2vec's text format (also fastText's .vec and GloVe's), plain or compressed."""

    src: Path | None = None  # source embedding
    tgt: Path | None = None  # target embedding

    def __post_init__(self) -> None:
        if self.src is None and self.tgt is None:
            raise ValueError("src: neither src nor tgt names a file; name one, or remove word_vectors")
