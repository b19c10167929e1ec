"""The `tokenizer` section of a recipe: an existing subword model, or the training of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mtkit.text.normalise import Normalisation


@dataclass(frozen=True, kw_only=True)
class TokenizerFiles:
    """Subword models of the two sides."""

    src: Path  # as tokenizer.model, for the source side
    tgt: Path  # as tokenizer.model, for the target side


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """Training and use of the subword models."""

    # existing model: sentencepiece, also of other programs, or BPE codes of subword-nmt; the keys of training, such as
    # vocab_size, then have no effect. Null: train one
    model: Path | TokenizerFiles | None = None
    # unigram scores alike; word and char are for comparison
    model_type: Literal["bpe", "unigram", "word", "char"] = "bpe"
    vocab_size: Annotated[int, Field(gt=0, le=1_000_000)] = 8000  # with reserved tokens; suits 30k sentence pairs
    shared: bool = True  # one model for both sides; false: one model per side, each with vocab_size tokens
    byte_fallback: bool = False  # unknown characters become bytes: decoding is lossless, at a cost of 256 tokens
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0  # below 1 rare characters become unknown
    subword_regularization: Annotated[float, Field(ge=0, lt=1)] = 0.0  # p of BPE-dropout or unigram's alpha; 0: off
    normalisation: Normalisation = "identity"  # every line survives; nfc, nfkc: Unicode normal forms
    split_digits: bool = False  # every digit is a token of its own
    # training lines, taken evenly from longer text, and at most 96 MiB of it: more lines change few tokens, and the
    # memory of sentencepiece's trainer grows with them
    max_lines: Annotated[int, Field(gt=0)] = 2_000_000

    def __post_init__(self) -> None:
        if isinstance(self.model, TokenizerFiles) and self.shared:
            raise ValueError("shared: two models have two vocabularies; set it to false, or give one tokenizer.model")
        if self.subword_regularization and self.model_type in ("word", "char"):
            raise ValueError(
                f"subword_regularization: a {self.model_type} model has only one segmentation per line; set it to 0, "
                "or model_type to bpe"
            )
