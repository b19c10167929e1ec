"""What is done to monolingual text so that there is something to learn from it: its restoration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.noise.row_rng import Draws
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.store import Store
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.special_tokens import MASK, NUM_SPANS, span
from mtkit.text.tokenizer import Tokenizer

_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")


_CLOSING = "\"'»«”’)]"  # may stand behind the end of a sentence


@dataclass(frozen=True)
class Noised:
    """N sentences to be restored, pieces without bos and eos.

    Attributes:
        src: what is left of them.
        tgt: what is to be said.
        scored: bool, a row for each of `tgt`: at which pieces it is asked for; None: at all, and at eos.
    """

    src: Ragged
    tgt: Ragged
    scored: Ragged | None = None


class Noise(Protocol):
    """A function of sentences and of draws for them. Neither side grows, or it has three pieces at most."""

    def __call__(self, rows: Ragged, draws: Draws) -> Noised:
        """Disturb these sentences, pieces without bos and eos."""
        ...


@dataclass(frozen=True)
class NoisePieces:
    """What noise needs to know of a vocabulary of V pieces.

    Attributes:
        mask: stands for pieces that are hidden.
        spans: [32] the sentinels of removed spans.
        text: those that text consists of.
        ends_sentence: [V] whether a sentence can end with this piece.
        begins_word: [V] whether a word begins with it.
    """

    mask: int
    spans: NDArray[np.int64]
    text: NDArray[np.int64]
    ends_sentence: NDArray[np.bool_]
    begins_word: NDArray[np.bool_]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> NoisePieces:
        """Those of a tokenizer."""
        size = tokenizer.vocab.size
        names = tokenizer.pieces(range(size))
        no_text = [*tokenizer.control_ids(), tokenizer.vocab.unk]
        return cls(
            mask=tokenizer.piece_id(MASK),
            spans=np.array([tokenizer.piece_id(span(number)) for number in range(NUM_SPANS)]),
            text=np.setdiff1d(np.arange(size), no_text),
            ends_sentence=np.array([name.rstrip(_CLOSING).endswith(_SENTENCE_ENDS) for name in names]),
            begins_word=np.array([name.startswith(SPACE_MARK) for name in names]),
        )


@dataclass(frozen=True)
class Denoising:
    """Monolingual text that is to be restored from what noise leaves of it; both sides of the store are that text."""

    store: Store
    noise: Noise


Corpus = Store | Denoising


def store_of(corpus: Corpus) -> Store:
    """Where the text of a corpus is."""
    return corpus.store if isinstance(corpus, Denoising) else corpus
