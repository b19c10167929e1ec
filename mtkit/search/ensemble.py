"""Ensemble: several models over one vocabulary as one Stepper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mtkit.search.interface import DecoderState, DecoderStep, Stepper


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members."""

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
