"""Token ids of the samples of a window: stored or sampled segmentations, variants of form, noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.noise.noise import Corpus, DenoisingCorpus, NoisedBatch, get_store
from mtkit.corpus.noise.row_rng import RowRandom
from mtkit.corpus.order.hash_rng import hash_seed, uniform01
from mtkit.corpus.order.order import SampleWindow
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.store import SIDES, Store
from mtkit.text.subword.tokenizer import Side
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.variants import pair_variant

_NOISE_SEED = 2  # next to 0 and 1, the seeds of the two sides' segmentations
_VARIANT_SEED = 3
_CHOICE_BITS = 11  # of the random bits of a sample, those that `uniform01` leaves out


@dataclass(frozen=True)
class SegmentedWindow:
    """N samples with their token ids, without bos and eos.

    Attributes:
        src, tgt: N rows each.
        sample_ids: [N] their numbers, counted through all corpora.
        loss_mask: as `NoisedBatch.loss_mask`.
    """

    src: Ragged
    tgt: Ragged
    sample_ids: NDArray[np.int64]
    loss_mask: Ragged | None = None


@dataclass(frozen=True)
class _CorpusSlice:
    """The samples [N] of one corpus in a window; `start` is the number of the corpus' first sample among all."""

    corpus: Corpus
    start: int
    sample: NDArray[np.int64]
    epoch: NDArray[np.int64]

    @property
    def store(self) -> Store:
        """The store of the corpus."""
        return get_store(self.corpus)


class CancelledError(Exception):
    """Ends work whose result is no longer needed; never reaches a user."""


@dataclass(frozen=True)
class SubwordSegmenter:
    """Reads or samples segmentations, of variants of form too, and applies noise; a pure function of the window.

    Attributes:
        subword_regularization: BPE-dropout's probability or the unigram model's alpha (see Tokenizer.sample); 0 uses
            the stored segmentation.
        seed: seed of sampling, variants and noise, combined with the sample and its epoch.
    """

    corpora: Sequence[Corpus]
    tokenizers: TokenizerPair
    subword_regularization: float
    seed: int

    def __call__(self, window: SampleWindow, cancelled: Event) -> SegmentedWindow:
        """The samples of the window, in the order of the store, so that the disk is read in one direction.

        Raises:
            CancelledError: the event was set; sampling takes seconds, and the result is no longer needed.
        """
        order = np.lexsort((window.epoch, window.sample, window.corpus))
        corpus, sample, epoch = window.corpus[order], window.sample[order], window.epoch[order]
        starts = np.cumsum((0, *(len(get_store(each)) for each in self.corpora)))
        slices: list[NoisedBatch] = []
        for number, each in enumerate(self.corpora):
            here = corpus == number
            slices.append(
                self._segment_slice(_CorpusSlice(each, int(starts[number]), sample[here], epoch[here]), cancelled)
            )
        return SegmentedWindow(
            Ragged.concat([each.src for each in slices]),
            Ragged.concat([each.tgt for each in slices]),
            starts[corpus] + sample,
            concat_loss_masks([each.loss_mask for each in slices]),
        )

    def _segment_slice(self, part: _CorpusSlice, cancelled: Event) -> NoisedBatch:
        src = self._segment_side(part, "src", cancelled)
        if not isinstance(part.corpus, DenoisingCorpus):
            pair = src, self._segment_side(part, "tgt", cancelled)
            return NoisedBatch(*(self._with_variants(pair, part) if self.tokenizers.config.robustness else pair))
        rng = RowRandom.of(hash_seed(self.seed, _NOISE_SEED), part.start + part.sample, part.epoch)
        return part.corpus.apply_noise(src, rng)

    def _with_variants(self, pair: tuple[Ragged, Ragged], part: _CorpusSlice) -> tuple[Ragged, Ragged]:
        """Both sides of the samples, a share of them in another form; none exceeds the longest stored sentence."""
        bits = RowRandom.of(hash_seed(self.seed, _VARIANT_SEED), part.start + part.sample, part.epoch).keys  # [N]
        rows = np.flatnonzero(uniform01(bits) < self.tokenizers.config.robustness)
        choice = (bits[rows] & np.uint64((1 << _CHOICE_BITS) - 1)).tolist()
        texts = [
            pair_variant(part.store.text("src", sample), part.store.text("tgt", sample), each)
            for sample, each in zip(part.sample[rows].tolist(), choice, strict=True)
        ]
        prefix = part.store.manifest.prefix
        if not texts:
            return pair
        src_lines, tgt_lines = map(list, zip(*texts, strict=True))
        new_src, new_tgt = map(Ragged.of, self.tokenizers.encode_pairs(src_lines, tgt_lines))
        sides = [new_src.with_first(prefix), new_tgt]
        fits = [ids.lengths <= part.store.stats(side).max_length for side, ids in zip(SIDES, sides, strict=True)]
        fitting = np.flatnonzero(fits[0] & fits[1] & (sides[0].lengths > len(prefix)) & (sides[1].lengths > 0))
        src, tgt = (old.with_rows(rows[fitting], new.take(fitting)) for old, new in zip(pair, sides, strict=True))
        return src, tgt

    def _segment_side(self, part: _CorpusSlice, side: Side, cancelled: Event) -> Ragged:
        stored = part.store.all_ids(side).take(part.sample)
        return self._sample_segmentations(stored, part, side, cancelled) if self.subword_regularization > 0 else stored

    def _sample_segmentations(self, stored: Ragged, part: _CorpusSlice, side: Side, cancelled: Event) -> Ragged:
        """Sample segmentations; one that is longer than the longest stored sentence is replaced by the stored one.

        So no sentence exceeds the token budget or the table of positions that the stored sentences fit into. Those
        with copy tokens stay as they are stored.
        """
        tokenizer = self.tokenizers.src if side == "src" else self.tokenizers.tgt
        max_length = part.store.stats(side).max_length
        prefix = part.store.manifest.prefix if side == "src" else ()
        copy_ids = self.tokenizers.copy_ids(side)
        rows: list[Sequence[int]] = []
        for row, (sample, epoch) in enumerate(zip(part.sample.tolist(), part.epoch.tolist(), strict=True)):
            if cancelled.is_set():
                raise CancelledError
            seed = hash_seed(self.seed, SIDES.index(side), part.start + sample, epoch) >> 32
            ids = tokenizer.sample(part.store.text(side, sample), seed=seed, alpha=self.subword_regularization)
            ids, old = [*prefix, *ids], stored[row].tolist()
            rows.append(ids if len(ids) <= max_length and copy_ids.isdisjoint(old) else old)
        return Ragged.of(rows)


def concat_loss_masks(loss_masks: Sequence[Ragged | None]) -> Ragged | None:
    """The loss masks of all parts, or None if no part has one.

    Raises:
        ValueError: some parts have a mask and others not.
    """
    masks = [mask for mask in loss_masks if mask is not None]
    if masks and len(masks) < len(loss_masks):
        raise ValueError("masked text (noise.kind mlm) cannot be mixed with other training data")
    return Ragged.concat(masks) if masks else None
