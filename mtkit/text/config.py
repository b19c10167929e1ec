"""The `tokenizer` section of a recipe: an existing subword model, or the training of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mtkit.text.normalise import Normalisation

ModelType = Literal["bpe", "byte_bpe", "unigram", "wordpiece", "word", "char"]


@dataclass(frozen=True, kw_only=True)
class TokenizerFiles:
    """Subword models of the two sides."""

    src: Path  # as tokenizer.model, for the source side
    tgt: Path  # as tokenizer.model, for the target side


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """Training and use of the subword models."""

    # existing model: sentencepiece, also of other programs, or BPE codes of subword-nmt; keys of training, such as
    # vocab_size, cannot be stated beside it. Null: train one
    model: Path | TokenizerFiles | None = None
    # unigram scores alike; byte_bpe: BPE on the bytes of UTF-8, so that no text has unknown tokens; wordpiece: longest
    # pieces first; word and char are for comparison
    model_type: ModelType = "bpe"
    vocab_size: Annotated[int, Field(gt=0, le=1_000_000)] = 8000  # with reserved tokens; suits 30k sentence pairs
    shared: bool = True  # one model for both sides; false: one model per side, each with vocab_size tokens
    byte_fallback: bool = False  # unknown characters become bytes: decoding is lossless, at a cost of 256 tokens
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0  # below 1 rare characters become unknown
    subword_regularization: Annotated[float, Field(ge=0, lt=1)] = 0.0  # p of BPE-dropout or unigram's alpha; 0: off
    normalisation: Normalisation = "identity"  # every line survives; nfc, nfkc: Unicode normal forms
    split_digits: bool = False  # every digit is a token of its own
    # training lines, taken evenly from longer text, and at most 80 MiB of it: more lines change few tokens, and the
    # memory of sentencepiece's trainer grows with them
    max_lines: Annotated[int, Field(gt=0)] = 2_000_000
    # of words or characters in a word or char vocabulary; rarer ones are unknown
    min_frequency: Annotated[int, Field(ge=1)] = 1
    # unused tokens are added until the vocabulary size is a multiple; GPUs are fastest with multiples of 8 or 64
    pad_to_multiple_of: Annotated[int, Field(ge=1, le=1024)] = 1

    def __post_init__(self) -> None:
        if isinstance(self.model, TokenizerFiles) and self.shared:
            raise ValueError("shared: two models have two vocabularies; set it to false, or give one tokenizer.model")
        if self.min_frequency > 1 and self.model_type not in ("word", "char"):
            raise ValueError(
                f"min_frequency: a {self.model_type} vocabulary is limited by vocab_size alone; set it to 1, or "
                "model_type to word or char"
            )
        if self.byte_fallback and self.model_type in ("byte_bpe", "wordpiece"):
            reason = "has tokens for all bytes" if self.model_type == "byte_bpe" else "has no tokens for bytes"
            raise ValueError(f"byte_fallback: a {self.model_type} model {reason}; set it to false")
        if self.subword_regularization and self.model_type in ("word", "char"):
            raise ValueError(
                f"subword_regularization: a {self.model_type} model has only one segmentation per line; set it to 0, "
                "or model_type to bpe"
            )
