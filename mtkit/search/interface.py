"""The interface of search: how it calls a model (`start`, `step`), what it is asked for and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from mtkit.search.beam.selection import ExtensionSelector
from mtkit.search.constraints import Constraint
from mtkit.search.hypothesis import Hypothesis as Hypothesis  # of this interface too
from mtkit.search.hypothesis import SpecialIds as SpecialIds


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

    def language_model_log_probs(self, rows: slice) -> Tensor | None:
        """Log-probabilities of a language model for n rows, [n, V] (see ShallowFusion); None: there is none."""


class Stepper(Protocol):
    """Step function of a decoder: a model, an ensemble, or the scripted table of a test."""

    def start(self, source: Any) -> Any:
        """Encode B sentences; the result is a DecoderState with one row for each sentence."""

    def step(self, token: Tensor, state: Any) -> DecoderStep:
        """Extend each hypothesis by one token [rows] (`bos` first) and compute the distribution of the next."""


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
