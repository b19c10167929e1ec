"""IBM Model 1: lexical translation probabilities t(target token | source token), learned from the binary corpus.

Brown et al. 1993, sec. 4.1, eq. (5) to (7), https://aclanthology.org/J93-2003/ . The end-of-sentence token of the
source serves as their empty word e_0. The result is a lexicon, which guides attention in training and aligns words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.order.ragged import Ragged, lengths_to_offsets
from mtkit.corpus.store import SIDES, Store
from mtkit.errors import DamagedError
from mtkit.io.files import write_bytes
from mtkit.io.safetensors_file import map_tensors
from mtkit.text.subword.tokenizer import Side

ITERATIONS = 4  # of expectation maximisation; the lists hardly change after these
MAX_PAIRS = 16_000_000  # token pairs to learn from; bounds the memory, at about 25 bytes a pair
BLOCK_PAIRS = 1_000_000  # token pairs processed at a time
CHUNK = 100_000  # sentences whose token pairs are counted at a time
MIN_COUNT = 100  # a sentence pair of a large corpus is skipped if all its tokens have been seen this often
MAX_TARGETS = 64  # target tokens stored for a source token
MIN_PROB = 0.002  # minimum probability of a stored target token


@dataclass(frozen=True)
class Lexicon:
    """The likely translations of each source token; row s of `targets` belongs to source token s, best first.

    Attributes:
        targets: [V_src] rows of target ids, int32.
        probabilities: t(target | source) of each element of `targets`, flat, float16.
        frequent: [V_tgt] all target ids, the most frequent first, int32.
    """

    targets: Ragged
    probabilities: NDArray[np.float16]
    frequent: NDArray[np.int32]

    def pruned(self, *, max_targets: int, min_prob: float) -> Lexicon:
        """The lexicon with at most `max_targets` targets per source token, each with at least `min_prob`."""
        lengths = self.targets.lengths
        rank = np.arange(len(self.targets.flat)) - np.repeat(self.targets.offsets[:-1], lengths)
        selected = (rank < max_targets) & (self.probabilities >= min_prob)
        sources = np.repeat(np.arange(len(lengths)), lengths)
        offsets = lengths_to_offsets(np.bincount(sources[selected], minlength=len(lengths)))
        targets = Ragged(self.targets.flat[selected], offsets)
        return replace(self, targets=targets, probabilities=self.probabilities[selected])

    def save(self, path: Path, more: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Write a file in the safetensors format, with `more` arrays; equal lexicons give identical bytes.

        Raises:
            ReadWriteError: the file cannot be written.
        """
        import safetensors.numpy  # here alone: translation, which reads the file, does without the package

        columns: dict[str, NDArray[Any]] = {
            "frequent": self.frequent,
            "offsets": self.targets.offsets,
            "probabilities": self.probabilities,
            "targets": self.targets.flat,
            **(more or {}),
        }
        write_bytes(path, safetensors.numpy.save(columns))

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        """Read a file written by `save`.

        Raises:
            MissingInputError, ReadWriteError: as `files.translate_read_errors`.
            DamagedError: the file is damaged.
        """
        try:
            _, columns = map_tensors(path)
            ids, offsets = columns["targets"], columns["offsets"]
            probabilities, frequent = columns["probabilities"], columns["frequent"]
        except (ValueError, KeyError) as error:
            raise DamagedError(f"{path}: damaged: not a lexicon", REMEDY) from error
        types = [f"{each.dtype}{each.ndim}" for each in (offsets, ids, probabilities, frequent)]
        is_consistent = (  # all indices exist
            types == ["int641", "int321", "float161", "int321"]
            and ids.shape == probabilities.shape
            and offsets[:1].tolist() == [0]
            and int(offsets[-1]) == len(ids)
            and bool((np.diff(offsets) >= 0).all())
            and bool(((ids >= 0) & (ids < len(frequent))).all())
            and np.array_equal(np.sort(frequent), np.arange(len(frequent)))
        )
        if not is_consistent:
            raise DamagedError(f"{path}: damaged: its columns contradict each other", REMEDY)
        return cls(Ragged(ids, offsets), probabilities, frequent)


REMEDY = "in a run folder, mtkit preprocess rebuilds it"


class AlignmentPairs(NamedTuple):
    """All P (source token, target token) pairs of some sentence pairs, grouped by target position."""

    key: NDArray[np.int64]  # [P] source · V_tgt + target
    start: NDArray[np.int64]  # [T] index of the first pair of each target position


def learn_lexicon(stores: Sequence[Store], *, backward: bool = False) -> Lexicon:
    """Estimate IBM Model 1 on a training corpus and prune the result to a lexicon, `backward` from target to source.

    Of a large corpus only sentence pairs with a token seen fewer than MIN_COUNT times are used; MAX_PAIRS bounds the
    memory.
    """
    sides = SIDES[::-1] if backward else SIDES
    src_vocab, tgt_vocab = (stores[0].stats(side).vocab for side in sides)
    # Pairs are replaced by an index into their block's distinct keys at once: int32 instead of int64, which halves the
    # memory of the list that the EM iterations go through.
    blocks = []
    for src, tgt in _sentence_blocks(stores, sides, src_vocab.size, tgt_vocab.size):
        pairs = alignment_pairs(src, tgt, eos=src_vocab.eos, num_targets=tgt_vocab.size)
        block_keys, index = np.unique(pairs.key, return_inverse=True)
        blocks.append((block_keys, index.astype(np.int32), pairs.start))
    # Now that all keys are known, each block's index is mapped to the table of distinct keys of the whole corpus.
    keys = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *(block_keys for block_keys, _, _ in blocks)]))
    keys = keys[np.diff(keys, prepend=-1) > 0]  # np.unique hashes, which takes ten times as long
    indexed = [
        (np.searchsorted(keys, block_keys).astype(np.int32)[index], start) for block_keys, index, start in blocks
    ]
    probability = expectation_maximisation(keys // tgt_vocab.size, indexed)
    is_likely = probability >= MIN_PROB
    keys, probability = keys[is_likely], probability[is_likely]
    order = np.lexsort((-probability, keys // tgt_vocab.size))  # by source token, then the most probable first
    keys = keys[order]
    offsets = lengths_to_offsets(np.bincount(keys // tgt_vocab.size, minlength=src_vocab.size))
    targets = Ragged((keys % tgt_vocab.size).astype(np.int32), offsets)
    counts = np.zeros(tgt_vocab.size, dtype=np.int64)
    for store in stores:
        ids = store.ids(sides[1]).flat
        for start in range(0, len(ids), BLOCK_PAIRS):
            counts += np.bincount(ids[start : start + BLOCK_PAIRS], minlength=tgt_vocab.size)
            store.release_pages()
    frequent = np.argsort(-counts, kind="stable").astype(np.int32)
    lexicon = Lexicon(targets, probability[order].astype(np.float16), frequent)
    return lexicon.pruned(max_targets=MAX_TARGETS, min_prob=0.0)


def expectation_maximisation(
    source: NDArray[np.int64], blocks: Sequence[tuple[NDArray[Any], NDArray[Any]]]
) -> NDArray[np.float64]:
    """t(target | source) of each distinct pair [N].

    Args:
        source: [N] the source token of each distinct pair.
        blocks: (index [P] of each pair in the table of N, start [T] of each target position) of each block.
    """
    probability = np.ones(len(source))  # uniform; Model 1's likelihood is concave, so any positive start is as good
    for _ in range(ITERATIONS):
        count = np.zeros(len(source))
        for index, start in blocks:
            # E step, eq. (5): each target position is aligned to its source tokens in proportion to t, sum 1.
            posterior = probability[index]  # [P]
            total = np.add.reduceat(posterior, start)  # [T]
            posterior /= np.repeat(total, np.diff(start, append=len(index)))
            # The expected counts of a block are summed up per distinct pair, so that no block is read twice.
            count += np.bincount(index, posterior, minlength=len(source))
        # M step, eq. (6), (7): normalise the counts of each source token. 1e-30 guards sources with no mass.
        probability = count / np.maximum(np.bincount(source, count), 1e-30)[source]
    return probability


def alignment_pairs(src: Ragged, tgt: Ragged, *, eos: int, num_targets: int) -> AlignmentPairs:
    """The pairs of every target position with every token of its source sentence, eos included."""
    src_lengths = src.lengths + 1  # with eos, the empty word of Model 1
    src_ids = np.insert(src.flat.astype(np.int64), src.offsets[1:], eos)
    sentence = np.repeat(np.arange(len(tgt)), tgt.lengths)  # [T]
    pairs_per_target = src_lengths[sentence]  # [T]
    start = lengths_to_offsets(pairs_per_target)[:-1]
    src_start = lengths_to_offsets(src_lengths)[:-1][sentence]  # [T] where the sentence starts in src_ids
    # Pair p of a target position that starts at `start` reads src_ids[src_start + p - start].
    source = src_ids[np.arange(pairs_per_target.sum()) - np.repeat(start - src_start, pairs_per_target)]  # [P]
    return AlignmentPairs(source * num_targets + np.repeat(tgt.flat.astype(np.int64), pairs_per_target), start)


def _sentence_blocks(
    stores: Sequence[Store], sides: Sequence[Side], num_sources: int, num_targets: int
) -> Iterator[tuple[Ragged, Ragged]]:
    """Blocks of sentence pairs (source rows, target rows) with at most MAX_PAIRS token pairs in all."""
    is_large = sum(int(counts.sum()) for store in stores for _, counts in _chunks(store)) > MAX_PAIRS
    seen = (np.zeros(num_sources, dtype=np.int64), np.zeros(num_targets, dtype=np.int64))
    budget = MAX_PAIRS
    for store in stores:
        for start, end in _blocks_of_pairs(store):
            rows, counts = np.arange(start, end), _count_pairs(store, start, end)
            pair = store.ids(sides[0]).take(rows), store.ids(sides[1]).take(rows)
            if is_large:
                # A large corpus repeats its frequent tokens far more often than estimation needs. The budget goes to
                # sentences with a token that is still rare, so that the end of the corpus contributes its new words.
                has_rare = _has_rare_token(pair[0], seen[0]) | _has_rare_token(pair[1], seen[1])
                selected = np.flatnonzero(has_rare)
                selected = selected[np.cumsum(counts[selected]) <= budget]
                pair, counts = (pair[0].take(selected), pair[1].take(selected)), counts[selected]
            budget -= int(counts.sum())
            for side, seen_counts in zip(pair, seen, strict=True):
                seen_counts += np.bincount(side.flat, minlength=len(seen_counts))
            store.release_pages()
            if len(pair[1].flat):
                yield pair


def _blocks_of_pairs(store: Store) -> Iterator[tuple[int, int]]:
    """Start and end of consecutive sentences with about BLOCK_PAIRS token pairs, whatever their lengths."""
    start, block, total = 0, 0, 0
    for first, counts in _chunks(store):
        blocks = (total + np.cumsum(counts)) // BLOCK_PAIRS
        for end in first + np.flatnonzero(np.diff(blocks, prepend=block)):
            if end > start:
                yield start, int(end)
            start = int(end)
        block, total = int(blocks[-1]), total + int(counts.sum())
    yield start, len(store)


def _chunks(store: Store) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """First sentence and `_count_pairs` of CHUNK sentences at a time, so that memory does not grow with the corpus."""
    for first in range(0, len(store), CHUNK):
        yield first, _count_pairs(store, first, min(first + CHUNK, len(store)))


def _count_pairs(store: Store, start: int, end: int) -> NDArray[np.int64]:
    """[end - start] token pairs of each sentence, eos of the source included."""
    src, tgt = (np.diff(store.ids(side).offsets[start : end + 1]) for side in SIDES)
    return np.asarray((src + 1) * tgt)


def _has_rare_token(rows: Ragged, seen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[R] whether a row has a token with fewer than MIN_COUNT occurrences so far."""
    sentence = np.repeat(np.arange(len(rows)), rows.lengths)
    return np.bincount(sentence[seen[rows.flat] < MIN_COUNT], minlength=len(rows)) > 0
