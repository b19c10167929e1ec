"""The `tokenizer` section of a recipe: an existing subword model, or the training of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from mtkit.config import Limits, config
from mtkit.text.normalise import Normalisation, Normaliser, TextForm

ModelType = Literal["bpe", "byte_bpe", "unigram", "wordpiece", "word", "char"]


@config
class TokenizerFiles:
    """Subword models of the two sides."""

    # Existing model of the source side, as `tokenizer.model`.
    src: Path
    # Existing model of the target side, as `tokenizer.model`.
    tgt: Path


@config
class TokenizerConfig:
    """Training and use of the subword models."""

    # Existing model instead of a trained one: sentencepiece, also of other programs, or BPE codes of subword-nmt. Keys
    # of training, such as vocab_size, cannot be stated beside it. Default: null trains one on the training corpora.
    model: Path | TokenizerFiles | None = None
    # Kind of subword model; byte_bpe is BPE on the bytes of UTF-8, so that no text has unknown tokens, wordpiece takes
    # the longest pieces first, word and char are for comparison. Default: bpe; unigram scores alike.
    model_type: ModelType = "bpe"
    # Number of tokens, reserved ones included. Default: suits 30,000 sentence pairs.
    vocab_size: Annotated[int, Limits(gt=0, le=1_000_000)] = 8000
    # Whether one model serves both sides; otherwise each side has a model with vocab_size tokens. Default: true, which
    # allows tied embeddings and copies names well.
    shared: bool = True
    # Whether characters without a token become bytes, so that decoding is lossless; it costs 256 tokens. Default:
    # false, since few texts have such characters.
    byte_fallback: bool = False
    # Share of the characters of the text that get a token; the rarest are unknown below 1. Default: 1, no character is
    # lost.
    character_coverage: Annotated[float, Limits(ge=0.98, le=1)] = 1.0
    # Randomness of the segmentation in training: p of BPE-dropout, or alpha of unigram; 0 is off. Default: 0; it helps
    # small corpora and needs more updates.
    subword_regularization: Annotated[float, Limits(ge=0, lt=1)] = 0.0
    # Unicode normal form of the text: identity, nfc or nfkc. Default: identity, so that every line survives unchanged.
    normalisation: Normalisation = "identity"
    # Whether all text is read in lower case, so that translations are in lower case too; scores then ignore capitals.
    # Default: false, since readers expect capitals; true is for comparison with papers that lower-case.
    lowercase: bool = False
    # Normaliser, and its version, that training and translation apply before the tokenizer: plain-1 makes white space
    # single spaces and removes invisible characters, none reads text as it is. Default: plain-1, so that a no-break
    # space or soft hyphen changes no translation.
    normaliser: Normaliser = "plain-1"
    # Share of the training samples that are read in another form: lower case, title case, other quotation marks, or no
    # final stop. Translation then reads lines in capitals as lower case, and writes their translations in capitals.
    # Default: 0 reads every sample as it is.
    robustness: Annotated[float, Limits(ge=0, le=1)] = 0.0
    # Whether URLs, numbers, placeholders and other spans are copied: reserved tokens stand for those that both sides of
    # a training pair have, and for all of a source that is translated. Default: false reads them as text.
    copy_tokens: bool = False
    # Whether every digit is a token of its own. Default: false, as in most papers; true helps with long numbers.
    split_digits: bool = False
    # Lines that train the tokenizer, taken evenly from longer text, and at most 80 MiB of it. Default: more lines
    # change few tokens, and the memory of sentencepiece's trainer grows with them.
    max_lines: Annotated[int, Limits(gt=0)] = 2_000_000
    # Least number of occurrences of a word or character in a word or char vocabulary; rarer ones are unknown. Default:
    # 1 keeps all that fit into vocab_size.
    min_frequency: Annotated[int, Limits(ge=1)] = 1
    # Number of which the vocabulary size is made a multiple by unused tokens; GPUs are fastest with multiples of 8 or
    # 64. Default: 1 adds none.
    pad_to_multiple_of: Annotated[int, Limits(ge=1, le=1024)] = 1

    def __post_init__(self) -> None:
        if isinstance(self.model, TokenizerFiles) and self.shared:
            raise ValueError("shared: two models have two vocabularies; set it to false, or give one tokenizer.model")
        if self.copy_tokens and self.normaliser == "none":
            raise ValueError("copy_tokens: needs normaliser plain-1, since the text beside a copy has single spaces")
        if self.copy_tokens and self.lowercase:
            raise ValueError(
                "copy_tokens: lowercase would write copies, such as URLs, without capitals; set one to false"
            )
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

    @property
    def form(self) -> TextForm:
        """The form of the text that the tokenizers read."""
        return TextForm(self.normalisation, self.lowercase)


def stored_tokenizer(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration that was stored with a tokenizer; earlier versions of mtkit had no normaliser."""
    return {"normaliser": "none", **fields}
