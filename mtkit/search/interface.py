"""The interface of search: how it calls a model (`start`, `step`), what it is asked for and what it returns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from mtkit.search.beam.selection import ExtensionSelector
from mtkit.search.constraints.constraint import Constraint


class DecoderState(Protocol):
    """State of a decoder; the W hypotheses of sentence b are the rows b·W ... b·W + W - 1."""

    @property
    def num_sentences(self) -> int:
        """B."""

    @property
    def num_rows(self) -> int:
        """B·W."""

    def select_rows(self, rows: Tensor) -> Self:
        """Reorder, repeat or drop hypotheses; `rows` [B·W'] must keep them grouped by sentence."""

    def keep_sentences(self, sentences: Tensor) -> Self:
        """Keep the sentences [N] with all their hypotheses, in this order. `self` must not be used afterwards."""


class DecoderStep(Protocol):
    """One decoder position of every hypothesis."""

    @property
    def state(self) -> DecoderState:
        """The next state."""

    @property
    def attention(self) -> Tensor | None:
        """Attention weights over the source [rows, H, S]."""

    def logits(self, rows: slice = slice(None)) -> Tensor:
        """Logits of n rows, [n, V]; any float type.

        They may be computed by this call. Search calls it once for each row and may write into the result.
        """

    def fast_argmax(self, banned: Tensor) -> tuple[Tensor, Tensor] | None:
        """Column and value [rows] of the largest logit, the columns `banned` excluded; None: take it from the logits.

        The value is not finite where the model computed NaN or infinity.
        """

    def fast_ranking(
        self, rows: slice, log_prob: Tensor, *, excluded: Tensor, end: int, count: int, rows_per_beam: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor] | None:
        """The best tokens of the beams in n rows, without all logits at once; None: rank the logits.

        Tokens are ranked by logit minus normaliser plus `log_prob`. Search calls this once for each row.

        Args:
            rows: whole beams.
            log_prob: [n], of the hypotheses.
            excluded: columns that are not ranked; the normaliser counts them.
            end: column of the end of sentence.
            count: K.
            rows_per_beam: W, rows that compete with each other.

        Returns:
            For each beam, best first, the logits [n/W, K], their rows among the n [n/W, K] and their columns [n/W, K];
            for each row log sum exp of the logits [n] and the logit of the end [n].
        """

    def language_model_log_probs(self, rows: slice) -> Tensor | None:
        """Log-probabilities of a language model for n rows, [n, V] (see shallow_fusion.py); None: there is none."""


class Stepper(Protocol):
    """Step function of a decoder: a model, an ensemble, or the scripted table of a test."""

    def start(self, source: Any) -> Any:
        """Encode B sentences; the result is a DecoderState with one row for each sentence."""

    def step(self, token: Tensor, state: Any) -> DecoderStep:
        """Extend each hypothesis by one token [rows] (`bos` first) and compute the distribution of the next."""


@dataclass(frozen=True)
class SpecialIds:
    """Ids with a meaning for search; `banned` ids (padding, control tokens) are never generated."""

    vocab_size: int  # V
    bos: int
    eos: int
    banned: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """A batch of B sentences to be translated.

    Attributes:
        source: the argument of the stepper's `start`; opaque to search.
        max_length: [B] int64, maximum number of tokens, the end of sentence not counted.
        min_length: [B] int64, minimum number of tokens; `max_length` has precedence where it is smaller.
        sentence_ids: [B] int64, a number for each sentence that does not depend on its batch (seeds sampling).
        real: [B, S] bool, True for source tokens, False for padding; needed by the coverage penalty only.
        constraints: constraints of these sentences (prefix, phrases), applied after those of the search.
        selector: replaces the beam search's own selector; it must have one group.
    """

    source: Any
    max_length: Tensor
    min_length: Tensor
    sentence_ids: Tensor
    real: Tensor | None = None
    constraints: tuple[Constraint, ...] = ()
    selector: ExtensionSelector | None = None

    @classmethod
    def of(cls, source: Any, max_length: Tensor) -> SearchRequest:
        """A request without a minimum length, with sentences numbered from 0."""
        return cls(
            source=source,
            max_length=max_length,
            min_length=torch.zeros_like(max_length),
            sentence_ids=torch.arange(max_length.numel(), device=max_length.device),
        )

    @property
    def num_sentences(self) -> int:
        """B."""
        return self.max_length.numel()


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
    """

    tokens: list[int]
    log_prob: float
    score: float
    token_log_probs: list[float]
    finished: bool = True
    attention: Tensor | None = None
    failed: bool = False

    @classmethod
    def failure(cls) -> Hypothesis:
        """The hypothesis of a sentence for which the model computed NaN or infinity."""
        return cls(tokens=[], log_prob=math.nan, score=math.nan, token_log_probs=[], finished=False, failed=True)


SearchFn = Callable[[SearchRequest], list[list[Hypothesis]]]  # the n best of each sentence
