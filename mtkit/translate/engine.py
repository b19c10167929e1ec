"""Engines, which search translations of token ids and score given ones: interface, native one, size of batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol, TypeVar

from mtkit.errors import ComputeError, DataError, describe_oom, is_oom
from mtkit.inference.native_search import NativeModel, NativeSearch
from mtkit.inference.support import ComputeType
from mtkit.native.library import native
from mtkit.search.config import SearchConfig
from mtkit.search.hypothesis import Hypothesis, ScoredToken, SearchSettings, SentenceRequest, SpecialIds
from mtkit.search.support import unsupported
from mtkit.text.subword.tokenizer import Tokenizer

T = TypeVar("T")
R = TypeVar("R")
ItemError = DataError | ComputeError  # the model refuses an item, or memory runs out for it alone
Cost = Callable[[T], int]  # tokens that an item takes in a batch of items no longer than itself
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
        compute_type: see Engine.
        model: the packed model.
    """

    can_fork = True

    def __init__(self, model: NativeModel, *, name: str, load_reference: Callable[[], Engine]) -> None:
        """Take a packed model, and what loads the reference engine of the model, which imports torch."""
        self.model, self.name = model, name
        self.compute_type: ComputeType = model.compute_type
        self._load_reference = load_reference

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

        run = NativeSearch(self.model, settings)

        def search(requests: Sequence[SentenceRequest]) -> list[list[Hypothesis]]:
            supported = iter(run([each for each in requests if not each.include]))
            others: Iterator[list[Hypothesis]] = iter(())
            if any(each.include for each in requests):
                find = self.reference.make_search(config, special_ids, token_bytes, with_scores=with_scores)
                others = iter(find([each for each in requests if each.include]))
            return [next(others if each.include else supported) for each in requests]

        return search

    def score(self, pairs: Sequence[TokenPair], special_ids: SpecialIds) -> list[list[ScoredToken]]:
        """See Engine."""
        return self.model.score(pairs, special_ids)


class StartedEngine:
    """Another engine, with tokens before each target."""

    def __init__(self, engine: Engine, start: Sequence[int]) -> None:
        """Take the engine that searches, and the ids of the tokens."""
        self.engine, self.start = engine, start
        self.name, self.compute_type, self.can_fork = engine.name, engine.compute_type, engine.can_fork

    def make_search(
        self, config: SearchConfig, special_ids: SpecialIds, token_bytes: Sequence[bytes], *, with_scores: bool
    ) -> SearchFn:
        """See Engine."""
        allowed, count = self._allowed(special_ids), len(self.start)
        run = self.engine.make_search(config, allowed, token_bytes, with_scores=with_scores)

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
        return [scores[len(self.start) :] for scores in self.engine.score(started, self._allowed(special_ids))]

    def _allowed(self, special_ids: SpecialIds) -> SpecialIds:
        """The ids with a meaning, of which those of `start` may be generated, as search must begin with them."""
        return replace(special_ids, banned=tuple(token for token in special_ids.banned if token not in self.start))


def name_line(line: int, error: ItemError, *, remedy: str) -> ItemError:
    """The error with the number of its line; with a remedy if memory ran out."""
    if isinstance(error, ComputeError):
        return ComputeError(f"line {line}: {error}; {remedy}")
    return DataError(f"line {line}: {error}")


class BatchBudget:
    """Largest batches; they shrink when memory runs out.

    Attributes:
        tokens: items × cost of the longest item of a batch, at most, unless it has one item.
    """

    def __init__(self, tokens: int, report_oom: Callable[[int], None] | None = None) -> None:
        """Take the size.

        Args:
            tokens: see the attribute.
            report_oom: called with the size once it had to be reduced for the first time.
        """
        self.tokens = tokens
        self._report_oom = report_oom

    def batches(self, items: Iterable[T], cost: Cost[T]) -> Iterator[list[T]]:
        """Yield batches of similar length, the longest first."""
        waiting = sorted(items, key=lambda item: -cost(item))
        start = 0
        while start < len(waiting):
            count = max(1, self.tokens // cost(waiting[start]))
            yield waiting[start : start + count]
            start += count

    def compute(
        self, batch: Sequence[T], cost: Cost[T], run: Callable[[Sequence[T]], Sequence[R]]
    ) -> list[R | ItemError]:
        """Run a function on a batch; again on halves if memory runs out or the model refuses an item.

        Args:
            batch: items, the longest first.
            cost: as for `batches`.
            run: returns a result for each item. It raises DataError if an item is too long for the model.

        Returns:
            The result of each item, or the error of an item that the model refuses or that does not fit into memory
            in a batch of its own.

        Raises:
            RuntimeError: another error of `run`.
        """
        if not batch:
            return []
        is_out_of_memory = False
        try:
            return [*run(batch)]
        except DataError as error:
            if len(batch) == 1:
                return [error]
        except (RuntimeError, MemoryError) as error:
            if not is_oom(error):
                raise
            if len(batch) == 1:
                return [ComputeError(f"{describe_oom(error)} in a batch of this line alone")]
            is_out_of_memory = True
        middle = len(batch) // 2
        if is_out_of_memory:  # outside of `except`, where the exception keeps tensors alive
            self.tokens = min(self.tokens, middle * cost(batch[0]))
            if self._report_oom is not None:
                self._report_oom(self.tokens)
                self._report_oom = None
            if "torch" in sys.modules:
                import torch

                torch.cuda.empty_cache()  # the failed attempt has fragmented the memory; without a GPU it does nothing
        halves = batch[:middle], batch[middle:]
        return [result for half in halves for result in self.compute(half, cost, run)]
