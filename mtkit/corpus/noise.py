"""Noise on monolingual text: the source is a corrupted sentence, the target its restoration."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.config import BartNoiseConfig, LanguageModelConfig, MLMMaskingConfig, SpanCorruptionConfig
from mtkit.corpus.order.hash_rng import RowRandom, ragged_index
from mtkit.corpus.order.ragged import Ragged, lengths_to_offsets
from mtkit.corpus.store import Store
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.vocab import MASK, NUM_SENTINELS, sentinel_token

_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")
_CLOSING = "\"'»«”’)]"  # may follow the punctuation mark at the end of a sentence
# streams of random numbers, of span corruption, of BART's noise and of masking
_KEPT, _REMOVED = range(2)
_ORDER, _LENGTH, _GAP, _DELETED, _MASKED = range(5)
_CHOSEN, _ACTION, _REPLACEMENT = range(3)


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

    def __init__(self, config: LanguageModelConfig, vocab: NoiseVocab) -> None: ...

    def __call__(self, rows: Ragged, rng: RowRandom) -> NoisedBatch:
        """Pair each sentence with an empty source."""
        return NoisedBatch(Ragged(rows.flat[:0], np.zeros(len(rows) + 1, dtype=np.int64)), rows)


class SpanCorruption:
    """`a b c d e f` becomes `a <span0> d <span1>`, and the target `<span0> b c <span1> e f <span2>`.

    Raffel et al. 2020, sec. 3.1.4 and 3.3.4, https://arxiv.org/abs/1910.10683, with the lengths of their program: of n
    tokens round(noise_density · n) are removed, at least one, in round(removed / mean_span_length) spans. The removed
    and the remaining tokens are cut into the same number of parts, all ways equally likely; the parts alternate,
    beginning with a remaining one. There are fewer spans where sentinels, or remaining tokens between spans, would run
    out.
    """

    def __init__(self, config: SpanCorruptionConfig, vocab: NoiseVocab) -> None:
        self.config, self.vocab = config, vocab

    def __call__(self, rows: Ragged, rng: RowRandom) -> NoisedBatch:
        """Replace spans by sentinels."""
        lengths = rows.lengths
        has_text = lengths > 0
        # [R] tokens to remove, and spans to remove them in
        num_removed = np.rint(lengths * self.config.noise_density)
        num_removed = np.clip(num_removed, 1, np.maximum(lengths - 2, 1)).astype(np.int64)
        max_spans = np.minimum(num_removed, np.maximum(lengths - num_removed - 1, 1))
        num_spans = np.rint(num_removed / self.config.mean_span_length).astype(np.int64)
        num_spans = np.minimum(np.clip(num_spans, 1, max_spans), len(self.vocab.sentinels) - 1) * has_text
        num_removed *= has_text
        kept_lengths = rng.random_partition(lengths - num_removed, num_spans, _KEPT)  # [all spans]
        span_lengths = rng.random_partition(num_removed, num_spans, _REMOVED)  # [all spans]
        parts = np.stack([kept_lengths, span_lengths], 1).ravel()
        is_removed = np.repeat(np.arange(len(parts)) % 2 == 1, parts)  # [T]
        span_starts = lengths_to_offsets(parts)[1:-1:2]  # of the removed spans, among all tokens
        number = np.arange(len(span_starts)) - np.repeat(lengths_to_offsets(num_spans)[:-1], num_spans)  # in its row
        sentinels = self.vocab.sentinels[number]
        ids = rows.flat.astype(np.int64)
        removed_ids = ids[is_removed]
        # The first token of each span makes room for its sentinel; the others are dropped from the source.
        ids[span_starts] = sentinels
        is_removed[span_starts] = False
        src = Ragged(ids[~is_removed], lengths_to_offsets(lengths - num_removed + num_spans))
        ends = lengths_to_offsets(num_removed)[1:][has_text]
        final_sentinels = self.vocab.sentinels[num_spans[has_text]]
        # Where the end of a row and the start of the next coincide, np.insert puts the row's final sentinel first.
        where = np.concatenate([ends, lengths_to_offsets(span_lengths)[:-1]])
        tgt = np.insert(removed_ids, where, np.concatenate([final_sentinels, sentinels]))
        return NoisedBatch(src, Ragged(tgt, lengths_to_offsets(num_removed + num_spans + has_text)))


class BartNoise:
    """Sentence permutation, text infilling, token deletion and token masking, in this order.

    Lewis et al. 2020, sec. 2.2, https://arxiv.org/abs/1910.13461. Each span is replaced by one mask. Span lengths are
    Poisson distributed; a span of length 0 inserts a mask. Exactly round(infilling_rate · n) tokens are removed: the
    last span is cut to fit. At most that many spans are drawn, and the last one allowed takes all that is left, so that
    a sentence never gets longer. All arrangements of the spans among the remaining tokens are equally likely.
    """

    def __init__(self, config: BartNoiseConfig, vocab: NoiseVocab) -> None:
        self.config, self.vocab = config, vocab
        # P(length <= k) of a span for k = 0, 1, ..., up to 20 standard deviations above the mean
        mean = config.mean_span_length
        counts = range(int(mean + 20 * math.sqrt(mean) + 20))
        self._poisson_cdf = np.cumsum([math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in counts])

    def __call__(self, rows: Ragged, rng: RowRandom) -> NoisedBatch:
        """Corrupt each sentence by the steps whose rate is not 0."""
        config = self.config
        src = Ragged(rows.flat.astype(np.int64), rows.offsets)
        if config.permute_sentences:
            src = self._shuffle_sentences(src, rng)
        if config.infilling_rate:
            src = self._infill(src, rng)
        if config.deletion_rate:
            stays = rng.uniform(src.lengths, _DELETED) >= config.deletion_rate
            row, _ = ragged_index(src.lengths)
            lengths = np.bincount(row[stays], minlength=len(src))
            src = Ragged(src.flat[stays], lengths_to_offsets(lengths))
        if config.masking_rate:
            masked = rng.uniform(src.lengths, _MASKED) < config.masking_rate
            src = Ragged(np.where(masked, self.vocab.mask, src.flat), src.offsets)
        return NoisedBatch(src, rows)

    def _shuffle_sentences(self, rows: Ragged, rng: RowRandom) -> Ragged:
        """Shuffle the sentences of each line; a sentence ends where a word starts after an end mark."""
        row, column = ragged_index(rows.lengths)
        ids = rows.flat
        starts_sentence = column > 0  # the second and further sentences of each line
        starts_sentence[1:] &= self.vocab.ends_sentence[ids[:-1]] & self.vocab.starts_word[ids[1:]]
        counts = np.bincount(row[starts_sentence], minlength=len(rows)) + (rows.lengths > 0)  # [R] sentences
        sentence = np.cumsum(starts_sentence | (column == 0)) - 1  # [T]
        key = rng.uniform(counts, _ORDER)[sentence]
        return Ragged(ids[np.lexsort((column, key, row))], rows.offsets)

    def _infill(self, rows: Ragged, rng: RowRandom) -> Ragged:
        lengths = rows.lengths
        num_removed = np.rint(lengths * self.config.infilling_rate).astype(np.int64)  # [R]
        # One length is drawn for each token to remove: with at least one token a span, no row needs more spans.
        row, column = ragged_index(num_removed)
        span = np.searchsorted(self._poisson_cdf, rng.uniform(num_removed, _LENGTH), side="right")
        total = np.cumsum(span) - lengths_to_offsets(np.bincount(row, span, len(rows)).astype(np.int64))[:-1][row]
        before = total - span  # tokens of the row that the earlier spans removed
        left = num_removed[row] - before
        span = np.where(column == num_removed[row] - 1, left, np.minimum(span, left))
        is_used = left > 0  # spans drawn after all tokens are removed do not exist
        num_spans = np.bincount(row[is_used], minlength=len(rows))  # [R]
        # A corrupted row is a sequence of remaining tokens and masks; choosing the places of the masks in it makes all
        # arrangements equally likely.
        new_lengths = lengths - num_removed + num_spans  # [R]
        is_mask = rng.choose_k(new_lengths, num_spans, _GAP)
        width = np.ones(len(is_mask), dtype=np.int64)  # tokens of the original that each element stands for
        width[is_mask] = span[is_used]
        # The mask is appended because a span of length 0 at the very end starts behind the last token.
        ids = np.append(rows.flat, self.vocab.mask)[lengths_to_offsets(width)[:-1]]
        ids[is_mask] = self.vocab.mask
        return Ragged(ids, lengths_to_offsets(new_lengths))


class MLMMasking:
    """BERT's masking: of the chosen tokens most become the mask, some a random token, and the rest stay.

    Devlin et al. 2019, sec. 3.1 and appendix A.1, https://arxiv.org/abs/1810.04805 (80, 10 and 10%). Of n tokens
    round(masking_rate · n) are chosen, at least one, all choices equally likely. Random tokens are uniform over those
    of text. The loss covers the chosen tokens.
    """

    def __init__(self, config: MLMMaskingConfig, vocab: NoiseVocab) -> None:
        self.config, self.vocab = config, vocab

    def __call__(self, rows: Ragged, rng: RowRandom) -> NoisedBatch:
        """Mask tokens; both sides have the same lengths."""
        lengths, text_ids, config = rows.lengths, self.vocab.text_ids, self.config
        counts = np.minimum(np.maximum(np.rint(lengths * config.masking_rate), 1), lengths).astype(np.int64)  # [R]
        chosen = rng.choose_k(lengths, counts, _CHOSEN)  # [T], as all below
        action = rng.uniform(lengths, _ACTION)
        others = text_ids[(rng.uniform(lengths, _REPLACEMENT) * len(text_ids)).astype(np.int64)]
        ids = np.where(chosen & (action < config.mask_replace_prob + config.random_replace_prob), others, rows.flat)
        ids[chosen & (action < config.mask_replace_prob)] = self.vocab.mask
        return NoisedBatch(Ragged(ids, rows.offsets), rows, Ragged(chosen, rows.offsets))


@dataclass(frozen=True)
class DenoisingCorpus:
    """Monolingual text for denoising; both sides of the store are the same text."""

    store: Store
    noise: Noise

    def apply_noise(self, src: Ragged, rng: RowRandom) -> NoisedBatch:
        """Corrupt sources of the store; the prefixes of both sides stay before what noise makes of the text."""
        manifest = self.store.manifest
        noised = self.noise(src.without_first(len(manifest.prefix)), rng)
        return replace(
            noised, src=noised.src.with_first(manifest.prefix), tgt=noised.tgt.with_first(manifest.tgt_prefix)
        )


Corpus = Store | DenoisingCorpus


def get_store(corpus: Corpus) -> Store:
    """The store of a corpus."""
    return corpus.store if isinstance(corpus, DenoisingCorpus) else corpus
