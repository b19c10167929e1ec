"""Reranking of n-best lists: minimum Bayes risk, and the scores of a language model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import ComputeError, DataError, NonFiniteError
from mtkit.search.hypothesis import Hypothesis
from mtkit.search.length_penalty import LengthPenalty
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.engines.interface import Engine
from mtkit.translate.score import score_texts


class Candidate(NamedTuple):
    """An entry of an n-best list."""

    hypothesis: Hypothesis
    text: str


NBest = list[Candidate]  # of one sentence, best first
Rerank = Callable[[Sequence[NBest]], list[NBest]]  # new orders, perhaps with new scores
# N texts -> [N, N], similarity of a row's text to a column's as reference; larger is better
Utility = Callable[[Sequence[str]], NDArray[np.float64]]


def rerank_until_error(rerank: Rerank, lists: Sequence[NBest]) -> tuple[list[NBest], DataError | ComputeError | None]:
    """The lists in their new orders, up to the first one for which reranking fails, and its error.

    All lists are reranked at once; only after an error in halves, to find the list that causes it.
    """
    try:
        return rerank(lists), None
    except (DataError, ComputeError) as error:
        if len(lists) == 1:
            return [], error
    middle = len(lists) // 2
    results, first_error = rerank_until_error(rerank, lists[:middle])
    if first_error is None:
        rest, first_error = rerank_until_error(rerank, lists[middle:])
        results += rest
    return results, first_error


@dataclass(frozen=True)
class MinimumBayesRisk:
    """Ranks the n best translations or the samples of a line by their mean utility against all of them.

    Kumar and Byrne 2004; Eikema and Aziz 2020, equation 9, with the candidates as references of equal weight (the
    probability of a sample is in its frequency). https://arxiv.org/abs/2005.10283
    Equal texts are compared once. Among equals the first stays first. Scores do not change.

    Attributes:
        utility: such as sentence-level chrF or BLEU.
    """

    utility: Utility

    def __call__(self, lists: Sequence[NBest]) -> list[NBest]:
        """See Rerank."""
        return [[each[i] for i in self.order([text for _, text in each])] for each in lists]

    def order(self, texts: Sequence[str]) -> list[int]:
        """Indices of the texts, best first."""
        counts = Counter(texts)
        expected = dict(zip(counts, self.utility(list(counts)) @ np.array([*counts.values()]), strict=True))
        return sorted(range(len(texts)), key=lambda i: -expected[texts[i]])


@dataclass(frozen=True)
class LanguageModelReranking:
    """Adds `weight` · log p_LM(text) to the log-probability of complete hypotheses, before the length penalty.

    Unlike shallow fusion, the language model may have another vocabulary, since it reads text.

    Attributes:
        engine: of the language model.
        tokenizers: those of the language model.
        weight: of its log-probability.
        penalty: length penalty of the search.
    """

    engine: Engine
    tokenizers: TokenizerPair
    weight: float
    penalty: LengthPenalty

    def __call__(self, lists: Sequence[NBest]) -> list[NBest]:
        """See Rerank.

        Raises:
            NonFiniteError: the language model computes NaN or infinity.
            DataError: a translation is too long for the language model.
            ComputeError: memory runs out for a single translation.
        """
        candidates = [candidate for each in lists for candidate in each]
        if not candidates:
            return []
        scores = iter(self.scores(candidates))
        rescored = [[c._replace(hypothesis=replace(c.hypothesis, score=next(scores))) for c in each] for each in lists]
        return [sorted(each, key=lambda c: -c.hypothesis.score) for each in rescored]

    def scores(self, candidates: Sequence[Candidate]) -> list[float]:
        """New scores of hypotheses; errors as `__call__`."""
        try:
            log_probs = score_texts(self.engine, self.tokenizers, [candidate.text for candidate in candidates])
        except DataError as error:
            raise DataError(f"{self.engine.name}: a translation is too long for the positions of this model") from error
        if not all(map(math.isfinite, log_probs)):
            raise NonFiniteError(self.engine.name)
        scores = []
        for candidate, language in zip(candidates, log_probs, strict=True):
            h, length = candidate.hypothesis, len(candidate.hypothesis.tokens) + 1
            # the difference of two scores, so that penalties and constraints of the search keep their share
            both = self.penalty.score_of(h.log_prob + self.weight * language, length)
            scores.append(h.score + both - self.penalty.score_of(h.log_prob, length))
        return scores
