"""Reranking of n-best lists: minimum Bayes risk, and the scores of a language model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import ComputeError, DataError, NonFiniteError, UsageError
from mtkit.model_folder.folder import StoredModel, read_stored_model
from mtkit.search.config import SearchConfig
from mtkit.search.hypothesis import Hypothesis
from mtkit.search.length_penalty import LengthPenalty
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.engine import Engine
from mtkit.translate.score import score_texts
from mtkit.translate.translation import LanguageModelOptions

NBest = list[Hypothesis]  # of one sentence with their texts, best first
Rerank = Callable[[Sequence[NBest]], list[NBest]]  # new orders, perhaps with new scores
# N texts -> [N, N], similarity of a row's text to a column's as reference; larger is better
Utility = Callable[[Sequence[str]], NDArray[np.float64]]


def rerank_until_error(
    rerankings: Sequence[Rerank], lists: Sequence[NBest]
) -> tuple[list[NBest], DataError | ComputeError | None]:
    """The lists after one reranking after another, up to the first one for which reranking fails, and its error.

    All lists are reranked at once; only after an error in halves, to find the list that causes it.
    """
    try:
        results = [*lists]
        for rerank in rerankings:
            results = rerank(results)
        return results, None
    except (DataError, ComputeError) as error:
        if len(lists) == 1:
            return [], error
    middle = len(lists) // 2
    results, first_error = rerank_until_error(rerankings, lists[:middle])
    if first_error is None:
        rest, first_error = rerank_until_error(rerankings, lists[middle:])
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
        return [[each[i] for i in self.order([h.text for h in each])] for each in lists]

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
        hypotheses = [hypothesis for each in lists for hypothesis in each]
        if not hypotheses:
            return []
        scores = iter(self.scores(hypotheses))
        rescored = [[replace(h, score=next(scores)) for h in each] for each in lists]
        return [sorted(each, key=lambda h: -h.score) for each in rescored]

    def scores(self, hypotheses: Sequence[Hypothesis]) -> list[float]:
        """New scores of hypotheses; errors as `__call__`."""
        try:
            log_probs = score_texts(self.engine, self.tokenizers, [hypothesis.text for hypothesis in hypotheses])
        except DataError as error:
            raise DataError(f"{self.engine.name}: a translation is too long for the positions of this model") from error
        if not all(map(math.isfinite, log_probs)):
            raise NonFiniteError(self.engine.name)
        scores = []
        for h, language in zip(hypotheses, log_probs, strict=True):
            length = len(h.tokens) + 1
            # the difference of two scores, so that penalties and constraints of the search keep their share
            both = self.penalty.score(h.log_prob + self.weight * language, length)
            scores.append(float(h.score + both - self.penalty.score(h.log_prob, length)))
        return scores


def read_language_model(
    options: LanguageModelOptions, search: SearchConfig, *, translation: StoredModel
) -> StoredModel:
    """Read the language model that is to rank the hypotheses of a translation model.

    Raises:
        UsageError: the model translates, or a search of one hypothesis leaves nothing to rank.
        DataError: it is damaged, or shallow fusion is asked for and its vocabulary is another one.
        MissingInputError: as `read_stored_model`.
    """
    stored = read_stored_model(Path(options.model))
    if not stored.metadata.is_language_model:
        raise UsageError(
            f"{stored.folder}: a translation model; --lm needs a language model, trained with corpus.noise.kind "
            "language_model"
        )
    ours, theirs = stored.tokenizers.tgt, translation.tokenizers.tgt
    is_same = (ours.hash(), ours.form) == (theirs.hash(), theirs.form)
    if options.mode == "fusion" and not is_same:
        raise DataError(
            f"{stored.folder}: its vocabulary differs from the target vocabulary of {translation.folder}; train it "
            "with that tokenizer (tokenizer.model), or use --lm-mode rerank"
        )
    if options.mode == "rerank" and search.num_hypotheses == 1:
        raise UsageError("--lm-mode rerank: there is only one hypothesis to choose from; raise the beam size")
    return stored
