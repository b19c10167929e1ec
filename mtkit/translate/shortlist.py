"""The vocabulary shortlist: the target pieces among which a batch's translations are looked for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mtkit.corpus.lexicon import Lexicon
from mtkit.corpus.order.ragged import Ragged

FREQUENT = 200  # target pieces that are in every shortlist: the most frequent ones
# Another piece must be expected so often, times the root of the batch's sentences. On Multi30k this takes 2,200 of
# 8,000 pieces for a batch of 40 sentences and costs 0.05 BLEU at beam 5, where 0.005 took 1,300, cost 0.3 to 0.5, and
# 3% less time; of a single sentence, which needs few, it leaves out less.
EXPECTED = 0.001


class Shortlist:
    """Chooses target pieces by what the source pieces of a batch are likely to become.

    L'Hostis, Grangier & Auli 2016, sec. 3.1 (word alignment), https://arxiv.org/abs/1610.00072 , but for the whole
    batch by expected counts: sum over its source pieces of t(target | source).
    """

    def __init__(
        self, lexicon: Lexicon, always: Sequence[int], *, frequent: int = FREQUENT, expected: float = EXPECTED
    ) -> None:
        """Take the parts.

        Args:
            lexicon: of the vocabularies of the model.
            always: target ids that search cannot do without: the end of sentence, and the unknown piece if allowed.
            frequent: how many of the most frequent target pieces are always there.
            expected: see EXPECTED; 0 takes the whole vocabulary.
        """
        self.lexicon = lexicon
        self.always = [*always, *lexicon.frequent[:frequent].tolist()]
        self.expected = expected

    def columns(self, sources: Ragged | Sequence[Sequence[int]], eos: int) -> Tensor:
        """[C] ascending target ids for a batch of sources, pieces without the end of sentence, which is `eos`."""
        packed = Ragged.of(sources)
        pieces, times = np.unique(np.append(packed.flat, [eos] * len(packed)), return_counts=True)
        lists = self.lexicon.targets
        found = lists.take(pieces)
        place = np.repeat(lists.offsets[pieces] - found.offsets[:-1], found.lengths) + np.arange(len(found.flat))
        weight = self.lexicon.probabilities[place].astype(np.float64) * np.repeat(times, found.lengths)
        expected = np.bincount(found.flat, weight, minlength=len(self.lexicon.frequent))  # [V]
        wanted = expected >= self.expected * math.sqrt(len(packed))
        wanted[self.always] = True
        return torch.from_numpy(np.flatnonzero(wanted))
