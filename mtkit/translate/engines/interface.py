"""Interface of engines, which search translations of token ids and score given ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from mtkit.inference.compute_type import ComputeType
from mtkit.search.config import SearchConfig
from mtkit.search.hypothesis import Hypothesis, ScoredToken, SentenceRequest, SpecialIds
from mtkit.text.subword.tokenizer import Tokenizer

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
            token_bytes: the bytes that each target token stands for, for texts that are forbidden.
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
