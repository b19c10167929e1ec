"""Engines, which search translations of token ids and score given ones: their interface, and the native one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from mtkit.inference.library import native
from mtkit.inference.native_search import NativeModel
from mtkit.inference.support import ComputeType
from mtkit.search.config import SearchConfig
from mtkit.search.hypothesis import Hypothesis, ScoredToken, SearchSettings, SentenceRequest, SpecialIds
from mtkit.search.support import unsupported
from mtkit.text.subword.tokenizer import Tokenizer

if TYPE_CHECKING:
    pass


SearchFn = Callable[[Sequence[SentenceRequest]], list[list[Hypothesis]]]  # the n best of each sentence, at least one
TokenPair = tuple[Sequence[int], Sequence[int]]  # ids of a source with its end of sentence, and of a target without


class Engine(Protocol):
    """A model or an ensemble with its searches. Requests and results are plain values, so that no torch is needed."""

    @property
    def name(self) -> str:
        """The model or models, for error messages."""

    @property
    def compute_type(self) -> ComputeType:
        """The number format of the computation, with `auto` resolved."""

    @property
    def can_fork(self) -> bool:
        """True if the engine works in a copy of its process, which has no threads and no GPU."""

    def make_search(
        self, config: SearchConfig, special_ids: SpecialIds, token_bytes: Sequence[bytes], *, with_scores: bool
    ) -> SearchFn:
        """The search that a configuration describes.

        Args:
            config: the configuration.
            special_ids: ids with a meaning.
            token_bytes: the bytes that each target token stands for, for excluded texts.
            with_scores: compute log-probabilities and attention also where the search can do without.
        """

    def score(self, pairs: Sequence[TokenPair], special_ids: SpecialIds) -> list[list[ScoredToken]]:
        """Scores of the tokens of given targets and, last, of their ends.

        Raises:
            DataError: a sentence is too long for the model.
        """


def special_ids(tokenizer: Tokenizer, *, allow_unknown: bool = False, copy_ids: Iterable[int] = ()) -> SpecialIds:
    """Ids with a meaning for search; control tokens are never generated, except for copy tokens and what is allowed."""
    vocab = tokenizer.vocab
    banned = {*tokenizer.special_ids, vocab.pad, vocab.bos} - {vocab.eos, *copy_ids}
    if not allow_unknown:
        banned.add(vocab.unk)
    return SpecialIds(vocab.size, vocab.bos, vocab.eos, tuple(sorted(banned)))


class NativeEngine:
    """A model in the native library. The reference implementation runs the searches that it does not support.

    Attributes:
        name: see Engine.
        model: the packed model.
    """

    can_fork = True

    def __init__(self, model: NativeModel, *, name: str, load_reference: Callable[[], Engine]) -> None:
        """Take a packed model, and what loads the reference engine of the model, which imports torch."""
        self.model, self.name = model, name
        self._load_reference = load_reference

    @property
    def compute_type(self) -> ComputeType:
        """See Engine."""
        return self.model.compute_type

    @cached_property
    def reference(self) -> Engine:
        """The engine of the reference implementation."""
        return self._load_reference()

    def make_search(
        self, config: SearchConfig, special_ids: SpecialIds, token_bytes: Sequence[bytes], *, with_scores: bool
    ) -> SearchFn:
        """See Engine."""
        if unsupported("native", config) or not native().matches_searches:
            return self.reference.make_search(config, special_ids, token_bytes, with_scores=with_scores)
        settings = SearchSettings(
            config=config,
            special_ids=special_ids,
            with_log_probs=with_scores,
            with_attention=with_scores,
            token_bytes=token_bytes,
        )

        def search(requests: Sequence[SentenceRequest]) -> list[list[Hypothesis]]:
            supported = iter(self.model.search([each for each in requests if not each.include], settings))
            others: Iterator[list[Hypothesis]] = iter(())
            if any(each.include for each in requests):
                find = self.reference.make_search(config, special_ids, token_bytes, with_scores=with_scores)
                others = iter(find([each for each in requests if each.include]))
            return [next(others if each.include else supported) for each in requests]

        return search

    def score(self, pairs: Sequence[TokenPair], special_ids: SpecialIds) -> list[list[ScoredToken]]:
        """See Engine."""
        return self.model.score(pairs, special_ids)


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
