"""Engine of a model whose translations begin with tokens that no text shows, such as the name of the target language.

The tokens are read by the decoder after its first one. They cost nothing in the score of a hypothesis, but count in its
length, as in the package transformers (`forced_bos_token_id`); results are returned without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mtkit.inference.compute_type import ComputeType
from mtkit.search.config import SearchConfig
from mtkit.search.hypothesis import Hypothesis, ScoredToken, SentenceRequest, SpecialIds
from mtkit.translate.engines.interface import Engine, SearchFn, TokenPair


@dataclass(frozen=True)
class StartedEngine:
    """Another engine, with tokens before each target.

    Attributes:
        engine: the engine that searches.
        start: ids of the tokens.
    """

    engine: Engine
    start: Sequence[int]

    @property
    def name(self) -> str:
        """See Engine."""
        return self.engine.name

    @property
    def compute_type(self) -> ComputeType:
        """See Engine."""
        return self.engine.compute_type

    @property
    def can_fork(self) -> bool:
        """See Engine."""
        return self.engine.can_fork

    def make_search(
        self, config: SearchConfig, special_ids: SpecialIds, token_bytes: Sequence[bytes], *, with_scores: bool
    ) -> SearchFn:
        """See Engine."""
        run, count = self.engine.make_search(config, special_ids, token_bytes, with_scores=with_scores), len(self.start)

        def search(requests: Sequence[SentenceRequest]) -> list[list[Hypothesis]]:
            started = [
                replace(
                    each,
                    prefix=[*self.start, *each.prefix],
                    free_prefix=count,
                    max_length=each.max_length + count,
                    min_length=each.min_length + count,
                )
                for each in requests
            ]
            return [[each.without_first(count) for each in n_best] for n_best in run(started)]

        return search

    def score(self, pairs: Sequence[TokenPair], special_ids: SpecialIds) -> list[list[ScoredToken]]:
        """See Engine."""
        started = [(source, [*self.start, *target]) for source, target in pairs]
        return [scores[len(self.start) :] for scores in self.engine.score(started, special_ids)]
