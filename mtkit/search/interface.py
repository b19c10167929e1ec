"""The interface of search: how it calls a model (`start`, `step`), what it is asked for, what all methods share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from mtkit.search.beam_state import ExtensionSelector
from mtkit.search.constraints import Constraint, PartialHypotheses
from mtkit.search.hypothesis import Hypothesis, SearchSettings


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
        selector: replaces the selector of the beam search; it must have one group.
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


COMPACT_FRACTION = 32  # a batch is compacted when 1 in 32 sentences is finished: removing them costs time in each layer

Search = Callable[[Stepper, SearchRequest], list[list[Hypothesis]]]  # the n best hypotheses of each sentence


class SearchRun:
    """One search of one request; base class of the methods' runs.

    A sentence has `beams_per_sentence` beams: one for each diverse group, or independent paths. Each beam has its own
    length limits.

    Attributes:
        constraints: those of the search and of the request.
        max_length: [N] maximum number of tokens, the end of sentence not counted.
        min_length: [N] minimum number of tokens.
        eos: id of the end of sentence.
        banned: ids that are never generated.
        unconstrained_lengths: lengths at which no length limit applies to any sentence, so that no step checks them.
    """

    def __init__(
        self, settings: SearchSettings, stepper: Stepper, request: SearchRequest, *, beams_per_sentence: int
    ) -> None:
        self.settings = settings
        self.stepper = stepper
        self.request = request
        self.beams_per_sentence = beams_per_sentence
        self.constraints: tuple[Constraint, ...] = (*settings.config.constraints(), *request.constraints)
        self.max_length = request.max_length.repeat_interleave(beams_per_sentence)  # [N]
        self.min_length = torch.minimum(request.min_length, request.max_length).repeat_interleave(beams_per_sentence)
        self.device = self.max_length.device
        self.eos = settings.special_ids.eos
        self.banned = torch.tensor(settings.special_ids.banned, dtype=torch.int64, device=self.device)
        self.unconstrained_lengths = range(int(self.min_length.max()), int(self.max_length.min()))

    @property
    def num_beams(self) -> int:
        """N, beams or paths of all sentences."""
        return self.max_length.numel()

    def start(self) -> DecoderState:
        """Encode the sentences; the state has one row for each beam."""
        state: DecoderState = self.stepper.start(self.request.source)
        if self.beams_per_sentence > 1:
            rows = torch.arange(state.num_rows, device=self.device).repeat_interleave(self.beams_per_sentence)
            state = state.select_rows(rows)
        return state

    def beams_of(self, sentences: Tensor) -> Tensor:
        """Indices [B'·beams_per_sentence] of the beams of the sentences [B']."""
        return (
            sentences.unsqueeze(1) * self.beams_per_sentence + torch.arange(self.beams_per_sentence, device=self.device)
        ).flatten()

    def constrain(self, logits: Tensor, normaliser: Tensor, hypotheses: PartialHypotheses) -> tuple[Tensor, Tensor]:
        """Log-probabilities without and with constraints.

        Args:
            logits: [rows, V].
            normaliser: [rows], log sum exp of the logits.
            hypotheses: those that the logits extend.

        Returns:
            The model's log-probabilities and the constrained ones, both [rows, V]. The latter may be overwritten.
        """
        log_prob = logits.float() - normaliser.unsqueeze(1)
        constrained = log_prob
        for constraint in self.constraints:
            constrained = constraint(hypotheses, constrained)
        return log_prob, constrained.clone() if constrained is log_prob else constrained


def compaction_order(finished: Tensor) -> Tensor | None:
    """Sentences that stay in the batch when those that are `finished` [B] are removed.

    The last sentences fill the gaps, so that the others keep their position and few have to be copied.

    Returns:
        Indices of the sentences that stay, in their new order [B']; None if too few are finished to be worth it.
    """
    if int(finished.sum()) * COMPACT_FRACTION < finished.numel():
        return None
    stay = (~finished).nonzero().squeeze(1)  # [B']
    order = torch.arange(stay.numel(), device=finished.device)
    gaps = finished[: stay.numel()].nonzero().squeeze(1)
    order[gaps] = stay[stay.numel() - gaps.numel() :]
    return order
