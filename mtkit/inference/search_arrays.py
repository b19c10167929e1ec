"""Arrays that a search shares with the native library: lists of different lengths, and the results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.inference.structures import CONSTANTS
from mtkit.search.hypothesis import Hypothesis, SentenceRequest

FAILED = CONSTANTS["FAILED"]


class IntegerLists:
    """Lists of integers, or texts of bytes, one after another, as the library reads them.

    Attributes:
        elements: of all lists.
        first: [lists + 1] index of the first element of each.
    """

    def __init__(self, lists: Sequence[Sequence[int]] | Sequence[bytes]) -> None:
        self.first = np.array([0, *accumulate(map(len, lists))], dtype=np.int32)
        if lists and isinstance(lists[0], bytes):
            self.elements: NDArray[Any] = np.frombuffer(b"".join(lists), dtype=np.uint8)  # type: ignore[arg-type]
        else:
            self.elements = np.array([element for each in lists for element in each], dtype=np.int32)


@dataclass(frozen=True)
class SearchResults:
    """The results of B sentences, filled by the library; see c/search.h.

    Attributes:
        tokens: [B, n_best, L] int32.
        log_probs: [B, n_best, L + 1], of each token and of the end of sentence.
        scores: [B, n_best].
        lengths: [B, n_best] int32, tokens.
        is_finished: [B, n_best] int32.
        counts: [B] int32, number of results; FAILED: the model computed NaN or infinity.
        alternatives: [B, n_best, L + 1, k] int32.
        alternative_log_probs: the same shape.
        attention: [n_best, maximum length, source length] of one sentence after another; None: not requested.
        first_attention: [B] int64 index of the first number of each.
        shapes: [B] maximum length and source length.
    """

    tokens: NDArray[np.int32]
    log_probs: NDArray[np.float32]
    scores: NDArray[np.float32]
    lengths: NDArray[np.int32]
    is_finished: NDArray[np.int32]
    counts: NDArray[np.int32]
    alternatives: NDArray[np.int32]
    alternative_log_probs: NDArray[np.float32]
    attention: NDArray[np.float32] | None
    first_attention: NDArray[np.int64]
    shapes: list[tuple[int, int]]

    @classmethod
    def empty(
        cls,
        requests: Sequence[SentenceRequest],
        source_lengths: NDArray[Any],
        n_best: int,
        *,
        with_attention: bool,
        num_alternatives: int,
    ) -> SearchResults:
        """Results that are still to be filled."""
        count, longest = len(requests), max(request.max_length for request in requests)
        shapes = [(each.max_length, int(length)) for each, length in zip(requests, source_lengths, strict=True)]
        sizes = np.array([n_best * length * source for length, source in shapes], dtype=np.int64)
        positions = (count, n_best, longest + 1, num_alternatives)
        return cls(
            tokens=np.zeros((count, n_best, longest), dtype=np.int32),
            log_probs=np.full((count, n_best, longest + 1), math.nan, dtype=np.float32),
            scores=np.zeros((count, n_best), dtype=np.float32),
            lengths=np.zeros((count, n_best), dtype=np.int32),
            is_finished=np.zeros((count, n_best), dtype=np.int32),
            counts=np.zeros(count, dtype=np.int32),
            alternatives=np.zeros(positions, dtype=np.int32),
            alternative_log_probs=np.zeros(positions, dtype=np.float32),
            attention=np.zeros(int(sizes.sum()), dtype=np.float32) if with_attention else None,
            first_attention=np.cumsum(sizes) - sizes,
            shapes=shapes,
        )

    def arrays(self) -> dict[str, NDArray[Any] | None]:
        """The arrays by name."""
        return {name: array for name, array in vars(self).items() if name != "shapes"}

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first."""
        return [
            [Hypothesis.failure()] if count == FAILED else [self._hypothesis(sentence, rank) for rank in range(count)]
            for sentence, count in enumerate(self.counts.tolist())
        ]

    def _hypothesis(self, sentence: int, rank: int) -> Hypothesis:
        at = sentence, rank
        length = int(self.lengths[at])
        token_log_probs = self.log_probs[at][: length + 1].tolist()
        return Hypothesis(
            tokens=self.tokens[at][:length].tolist(),
            log_prob=math.fsum(token_log_probs),
            score=float(self.scores[at]),
            token_log_probs=token_log_probs,
            finished=bool(self.is_finished[at]),
            attention=self._attention_of(sentence, rank, length),
            alternatives=self._alternatives_of(sentence, rank, length),
        )

    def _attention_of(self, sentence: int, rank: int, length: int) -> NDArray[np.float32] | None:
        """[T, S]; copied, so that it does not keep that of the batch alive."""
        if self.attention is None:
            return None
        max_length, source_length = self.shapes[sentence]
        first = int(self.first_attention[sentence]) + rank * max_length * source_length
        return self.attention[first : first + length * source_length].reshape(length, source_length).copy()

    def _alternatives_of(self, sentence: int, rank: int, length: int) -> list[list[tuple[int, float]]]:
        if not self.alternatives.shape[3]:
            return []
        tokens = self.alternatives[sentence, rank, : length + 1].tolist()
        log_probs = self.alternative_log_probs[sentence, rank, : length + 1].tolist()
        return [
            [(token, log_prob) for token, log_prob in zip(*each, strict=True) if token >= 0]
            for each in zip(tokens, log_probs, strict=True)
        ]
