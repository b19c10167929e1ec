"""The recipe's keys that say where weights begin, if not at random."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

Part = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class InitFromConfig:
    """Weights of another model, all or those of some parts."""

    model: Path  # a model folder or a finished run
    parts: Annotated[list[Part], Field(min_length=1)] | None = None  # such as encoder or embeddings.src; null: all
    tokenizer: bool = True  # take its tokenizer too; false: the recipe's own, whose pieces look for theirs by name


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig:
    """Files of word vectors in word2vec's text format (also fastText's .vec and GloVe's), plain or compressed."""

    src: Path | None = None
    tgt: Path | None = None

    def __post_init__(self) -> None:
        if self.src is None and self.tgt is None:
            raise ValueError("src: names no file, and tgt neither; name one, or remove the key that they stand under")
