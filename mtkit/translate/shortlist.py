"""Vocabulary shortlist: the target ids to which the output of a batch is restricted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.corpus.order.ragged import Ragged

NUM_FREQUENT = 200  # the most frequent target tokens are in every shortlist
# Minimum expected count of another token, times the square root of the number of sentences in the batch. With it a
# batch of 40 sentences has a quarter of a vocabulary of 8,000; measured: see tests/benchmarks/NOTES.md. Without the
# root, the shortlist of a single sentence, which is short anyway, would lack more.
MIN_EXPECTED_COUNT = 0.001


class Shortlist:
    """Selects target tokens that are likely translations of the source tokens of a batch.

    L'Hostis, Grangier & Auli 2016, sec. 3.1 (word alignment), https://arxiv.org/abs/1610.00072. Unlike there, tokens
    are selected for the whole batch by expected counts: the sum over its source tokens of t(target | source).
    """

    def __init__(
        self,
        lexicon: Lexicon,
        always: Sequence[int],
        *,
        num_frequent: int = NUM_FREQUENT,
        min_expected_count: float = MIN_EXPECTED_COUNT,
    ) -> None:
        """Take the lexicon and the thresholds.

        Args:
            lexicon: of the vocabularies of the model.
            always: target ids that search needs: the end of sentence, and the unknown token if allowed.
            num_frequent: number of the most frequent target tokens that are always included.
            min_expected_count: see MIN_EXPECTED_COUNT; 0 selects the whole vocabulary.
        """
        self.lexicon = lexicon
        self.always = [*always, *lexicon.frequent[:num_frequent].tolist()]
        self.min_expected_count = min_expected_count

    def token_ids(self, sources: Ragged | Sequence[Sequence[int]], eos: int) -> Tensor:
        """[C] ascending target ids for a batch of sources; these lack the end of sentence, which is `eos`."""
        packed = Ragged.of(sources)
        src_ids, counts = np.unique(np.append(packed.flat, [eos] * len(packed)), return_counts=True)
        lists = self.lexicon.targets
        targets = lists.take(src_ids)  # the likely target ids of each source id, one list after another
        # index in the lexicon's arrays of each entry of `targets`
        index = np.repeat(lists.offsets[src_ids] - targets.offsets[:-1], targets.lengths) + np.arange(len(targets.flat))
        weight = self.lexicon.probabilities[index].astype(np.float64) * np.repeat(counts, targets.lengths)
        expected = np.bincount(targets.flat, weight, minlength=len(self.lexicon.frequent))  # [V]
        selected = expected >= self.min_expected_count * math.sqrt(len(packed))
        selected[self.always] = True
        return torch.from_numpy(np.flatnonzero(selected))
