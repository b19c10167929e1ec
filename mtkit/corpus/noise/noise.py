"""Noise functions on monolingual text, and the corpus whose sentences training restores from noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.noise.row_rng import RowRandom
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.store import Store
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.vocab import MASK, NUM_SENTINELS, sentinel_token

_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")
_CLOSING = "\"'»«”’)]"  # may follow the punctuation mark at the end of a sentence


@dataclass(frozen=True)
class NoisedBatch:
    """N sentences to restore, as token ids without bos and eos.

    Attributes:
        loss_mask: bool, a row for each row of `tgt`: the tokens in the loss; None: all tokens and eos.
    """

    src: Ragged
    tgt: Ragged
    loss_mask: Ragged | None = None


class Noise(Protocol):
    """A function of sentences and their random numbers. No side gets longer than max(sentence length, 3) tokens."""

    def __call__(self, rows: Ragged, rng: RowRandom) -> NoisedBatch:
        """Corrupt these sentences, token ids without bos and eos."""
        ...


class EmptySource:
    """Sources without tokens: each text is predicted from its own beginning alone.

    A model that is trained on such text only is a language model. Together with sentence pairs these are the dummy
    sources of Sennrich et al. 2016, sec. 3.1, https://arxiv.org/abs/1511.06709
    """

    def __call__(self, rows: Ragged, rng: RowRandom) -> NoisedBatch:
        """See Noise."""
        return NoisedBatch(Ragged(rows.flat[:0], np.zeros(len(rows) + 1, dtype=np.int64)), rows)


@dataclass(frozen=True)
class NoiseVocab:
    """The properties of a vocabulary of V tokens that noise functions use.

    Attributes:
        sentinels: [32] ids of the sentinel tokens of removed spans.
        text_ids: ids of the tokens that text consists of.
        ends_sentence: [V] whether a sentence can end with this token.
        starts_word: [V] whether a word starts with this token.
    """

    mask: int
    sentinels: NDArray[np.int64]
    text_ids: NDArray[np.int64]
    ends_sentence: NDArray[np.bool_]
    starts_word: NDArray[np.bool_]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> NoiseVocab:
        """The properties of a tokenizer's vocabulary."""
        size = tokenizer.vocab.size
        tokens = tokenizer.ids_to_tokens(range(size))
        not_text = [*tokenizer.special_ids, tokenizer.vocab.unk]
        return cls(
            mask=tokenizer.token_to_id(MASK),
            sentinels=np.array([tokenizer.token_to_id(sentinel_token(number)) for number in range(NUM_SENTINELS)]),
            text_ids=np.setdiff1d(np.arange(size), not_text),
            ends_sentence=np.array([token.rstrip(_CLOSING).endswith(_SENTENCE_ENDS) for token in tokens]),
            starts_word=np.array([token.startswith(SPACE_MARK) for token in tokens]),
        )


@dataclass(frozen=True)
class DenoisingCorpus:
    """Monolingual text for denoising; both sides of the store are the same text."""

    store: Store
    noise: Noise

    def apply_noise(self, src: Ragged, rng: RowRandom) -> NoisedBatch:
        """Corrupt sources of the store, except for their prefix, which stays before the corrupted text."""
        prefix = self.store.manifest.prefix
        noised = self.noise(src.without_first(len(prefix)), rng)
        return replace(noised, src=noised.src.with_first(prefix))


Corpus = Store | DenoisingCorpus


def get_store(corpus: Corpus) -> Store:
    """The store of a corpus."""
    return corpus.store if isinstance(corpus, DenoisingCorpus) else corpus
