"""The fast engine: whole searches in the native library, without torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from mtkit.inference.compute_type import ComputeType
from mtkit.inference.fast_search import FastModel
from mtkit.inference.library import native
from mtkit.search.config import SearchConfig
from mtkit.search.hypothesis import Hypothesis, ScoredToken, SearchSettings, SentenceRequest, SpecialIds
from mtkit.search.support import unsupported
from mtkit.translate.engines.interface import Engine, SearchFn, TokenPair


class FastEngine:
    """A model in the native library. Searches that it does not take (see search/support.py) run as they are written.

    Attributes:
        name: see Engine.
        model: the packed model.
    """

    can_fork = True

    def __init__(self, model: FastModel, *, name: str, load_written: Callable[[], Engine]) -> None:
        """Take a packed model, and what loads the engine of the model as it is written, which imports torch."""
        self.model, self.name = model, name
        self._load_written = load_written

    @property
    def compute_type(self) -> ComputeType:
        """See Engine."""
        return self.model.compute_type

    @cached_property
    def written(self) -> Engine:
        """The engine of the model as it is written."""
        return self._load_written()

    def make_search(
        self, config: SearchConfig, special_ids: SpecialIds, token_bytes: Sequence[bytes], *, with_scores: bool
    ) -> SearchFn:
        """See Engine."""
        if unsupported("native", config) or not native().matches_searches:
            return self.written.make_search(config, special_ids, token_bytes, with_scores=with_scores)
        settings = SearchSettings(
            config=config,
            special_ids=special_ids,
            with_log_probs=with_scores,
            with_attention=with_scores,
            token_bytes=token_bytes,
        )

        def search(requests: Sequence[SentenceRequest]) -> list[list[Hypothesis]]:
            fast = iter(self.model.search([each for each in requests if not each.required], settings))
            others = [each for each in requests if each.required]
            written: list[list[Hypothesis]] = []
            if others:
                find = self.written.make_search(config, special_ids, token_bytes, with_scores=with_scores)
                written = find(others)
            slow = iter(written)
            return [next(slow if each.required else fast) for each in requests]

        return search

    def score(self, pairs: Sequence[TokenPair], special_ids: SpecialIds) -> list[list[ScoredToken]]:
        """See Engine."""
        return self.model.score(pairs, special_ids)
