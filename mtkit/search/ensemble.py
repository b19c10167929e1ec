"""Several models over one vocabulary as one Stepper: ensembles, and shallow fusion with a language model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mtkit.search.constraints import PartialHypotheses
from mtkit.search.interface import DecoderState, DecoderStep, Stepper


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members: of an ensemble, or of a translation model and a language model."""

    members: tuple[DecoderState, ...]

    @property
    def num_sentences(self) -> int:
        """B."""
        return self.members[0].num_sentences

    @property
    def num_rows(self) -> int:
        """B·W."""
        return self.members[0].num_rows

    def select_rows(self, rows: Tensor) -> EnsembleState:
        """See DecoderState."""
        return replace(self, members=tuple(member.select_rows(rows) for member in self.members))

    def keep_sentences(self, sentences: Tensor) -> EnsembleState:
        """See DecoderState."""
        return replace(self, members=tuple(member.keep_sentences(sentences) for member in self.members))


class EnsembleStep(NamedTuple):
    """One decoder position of all members."""

    members: tuple[DecoderStep, ...]
    state: EnsembleState
    attention: Tensor | None  # [rows, 1, S] mean over heads, then over the members that return attention

    def logits(self, rows: slice = slice(None)) -> Tensor:
        """Logarithm of the mean of the members' probabilities, [n, V or C] float32."""
        log_probs = torch.stack([step.logits(rows).float().log_softmax(-1) for step in self.members])  # [M, n, V]
        return log_probs.logsumexp(0) - math.log(len(self.members))

    def language_model_log_probs(self, rows: slice) -> None:
        """See DecoderStep; a model without shallow fusion."""


class Ensemble:
    """A stepper whose next-token distribution is the mean of its members' distributions."""

    def __init__(self, members: Sequence[Stepper]) -> None:
        """Raises ValueError if there is no member."""
        if not members:
            raise ValueError("an ensemble of no models")
        self.members = tuple(members)

    def start(self, source: Any) -> EnsembleState:
        """See Stepper; every member encodes the same source."""
        return EnsembleState(tuple(member.start(source) for member in self.members))

    def step(self, token: Tensor, state: EnsembleState) -> EnsembleStep:
        """See Stepper."""
        steps: tuple[DecoderStep, ...] = tuple(
            m.step(token, s) for m, s in zip(self.members, state.members, strict=True)
        )
        attentions = [step.attention.float().mean(1, keepdim=True) for step in steps if step.attention is not None]
        return EnsembleStep(
            members=steps,
            state=EnsembleState(tuple(step.state for step in steps)),
            attention=torch.stack(attentions).mean(0) if attentions else None,
        )


@dataclass(frozen=True)
class LanguageModelTerm:
    """Adds `weight` times the language model's log-probability of the next token.

    log p(y_t | x, y_<t) + weight · log p_LM(y_t | y_<t). Gulcehre et al. 2015, sec. 4.1. https://arxiv.org/abs/1503.03535
    The sum is not normalised again. Length penalty and pruning act on it; log-probabilities that a hypothesis reports
    stay those of the translation model.
    """

    weight: float

    def __call__(self, hypotheses: PartialHypotheses, log_prob: Tensor) -> Tensor:
        """See Constraint.

        Raises:
            ValueError: the steps come from a stepper without a language model.
        """
        if hypotheses.language_model is None:
            raise ValueError("a language model term needs the steps of ShallowFusion")
        return log_prob + self.weight * hypotheses.language_model


class FusionStep(NamedTuple):
    """One decoder position of both models; logits and attention are those of the translation model."""

    translation: DecoderStep
    language: DecoderStep
    state: EnsembleState

    @property
    def attention(self) -> Tensor | None:
        """See DecoderStep."""
        return self.translation.attention

    def logits(self, rows: slice = slice(None)) -> Tensor:
        """See DecoderStep."""
        return self.translation.logits(rows)

    def language_model_log_probs(self, rows: slice) -> Tensor:
        """See DecoderStep."""
        return self.language.logits(rows).float().log_softmax(-1)


@dataclass(frozen=True)
class ShallowFusion:
    """A stepper that runs a language model beside a translation model; LanguageModelTerm adds what it computes.

    Attributes:
        translation: the translation model, or an ensemble.
        language: the language model.
        empty_sources: function from a number of sentences to that number of empty sources, for the language model.
    """

    translation: Stepper
    language: Stepper
    empty_sources: Callable[[int], Any]

    def start(self, source: Any) -> EnsembleState:
        """See Stepper."""
        state: DecoderState = self.translation.start(source)
        return EnsembleState((state, self.language.start(self.empty_sources(state.num_sentences))))

    def step(self, token: Tensor, state: EnsembleState) -> FusionStep:
        """See Stepper."""
        first, second = state.members
        translation, language = self.translation.step(token, first), self.language.step(token, second)
        return FusionStep(translation, language, EnsembleState((translation.state, language.state)))
