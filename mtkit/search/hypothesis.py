"""Requests and results of search for single sentences, as plain values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple


@dataclass(frozen=True)
class SpecialIds:
    """Ids with a meaning for search; `banned` ids (padding, control tokens) are never generated."""

    vocab_size: int  # V
    bos: int
    eos: int
    banned: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """A search and what it returns, the same for all sentences; for the reference and for the native backend.

    Attributes:
        config: the SearchConfig.
        special_ids: ids with a meaning.
        with_log_probs: False allows greedy search to skip work on logits; log-probabilities are then NaN.
        with_attention: return the attention of the hypotheses, averaged over heads.
        num_alternatives: most probable tokens to return for each position (native backend).
        token_bytes: the bytes of each token, for excluded texts (native backend).
    """

    config: Any  # whose module imports the searches
    special_ids: SpecialIds
    with_log_probs: bool = True
    with_attention: bool = False
    num_alternatives: int = 0
    token_bytes: Sequence[bytes] = ()


@dataclass(frozen=True, kw_only=True)
class SentenceRequest:
    """A sentence to be translated.

    Attributes:
        source: ids that the model reads, the end of sentence included.
        max_length: maximum number of tokens, the end of sentence not counted; at least the length of the prefix.
        min_length: minimum number of tokens; `max_length` has precedence where it is smaller.
        sentence_id: a number of the sentence that does not depend on its batch (seeds sampling).
        prefix: tokens with which the translation begins.
        free_prefix: number of tokens of the prefix whose log-probability counts as 0 in the score.
        include: phrases that the translation must contain, as tokens (see IncludedPhrases).
        exclude: texts that the translation must not contain, as the bytes of tokens (see ExcludedTexts).
    """

    source: Sequence[int]
    max_length: int
    min_length: int = 0
    sentence_id: int = 0
    prefix: Sequence[int] = ()
    free_prefix: int = 0
    include: Sequence[Sequence[int]] = ()
    exclude: Sequence[bytes] = ()

    @property
    def is_constrained(self) -> bool:
        """True if there are other demands on the translation than its length."""
        return bool(self.prefix or self.include or self.exclude)


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation of one sentence.

    Attributes:
        tokens: ids without `bos` and `eos`.
        log_prob: the model's log-probability of the tokens and the end of sentence, nats.
        score: ranking value: after length penalty, coverage penalty and constraints.
        token_log_probs: log-probability of each token and, last, of the end of sentence; their sum is `log_prob`.
        finished: False if a length limit or a constraint forced the end.
        attention: [T, S] attention over the source for each token, averaged over heads; None unless requested.
        failed: the model computed NaN or infinity for the sentence, so that the tokens mean nothing.
        alternatives: the model's most probable tokens at each position, the end included, with their log-probabilities;
            none unless requested.
        text: the text of the tokens, which translation adds.
    """

    tokens: list[int]
    log_prob: float
    score: float
    token_log_probs: list[float]
    finished: bool = True
    attention: Any = None
    failed: bool = False
    alternatives: Sequence[Sequence[tuple[int, float]]] = ()
    text: str = ""

    def without_first(self, count: int) -> Hypothesis:
        """The hypothesis without its first tokens, and the same score."""
        if self.failed:
            return self
        log_probs = self.token_log_probs[count:]
        return replace(
            self,
            tokens=self.tokens[count:],
            log_prob=math.fsum(log_probs),
            token_log_probs=log_probs,
            attention=None if self.attention is None else self.attention[count:],
            alternatives=self.alternatives[count:],
        )

    @classmethod
    def failure(cls) -> Hypothesis:
        """The hypothesis of a sentence for which the model computed NaN or infinity."""
        return cls(tokens=[], log_prob=math.nan, score=math.nan, token_log_probs=[], finished=False, failed=True)


class ScoredToken(NamedTuple):
    """A given token, or the end of sentence, given the source and the tokens before it; nats."""

    log_prob: float
    best_log_prob: float  # of the most probable token
