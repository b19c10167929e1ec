"""Several models over one vocabulary as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mtkit.search.interface import State, Step, Stepper


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members."""

    members: tuple[State, ...]

    @property
    def num_sentences(self) -> int:
        """B."""
        return self.members[0].num_sentences

    @property
    def num_rows(self) -> int:
        """B·W."""
        return self.members[0].num_rows

    def select_rows(self, rows: Tensor) -> EnsembleState:
        """See State."""
        return replace(self, members=tuple(member.select_rows(rows) for member in self.members))

    def keep_sentences(self, sentences: Tensor) -> EnsembleState:
        """See State."""
        return replace(self, members=tuple(member.keep_sentences(sentences) for member in self.members))


class EnsembleStep(NamedTuple):
    """One decoder position of all members."""

    members: tuple[Step, ...]
    state: EnsembleState
    attention: Tensor | None  # [rows, H, S] the mean over members that give it, each one's heads averaged first

    def logits(self, rows: slice = slice(None)) -> Tensor:
        """Log of the mean of the members' probabilities [n, V or C], float32."""
        log_probs = torch.stack([step.logits(rows).float().log_softmax(-1) for step in self.members])  # [M, n, V]
        return log_probs.logsumexp(0) - math.log(len(self.members))

    def argmax(self, banned: Tensor) -> None:
        """See Step."""


class Ensemble:
    """A stepper whose next-piece distribution is the mean of its members' distributions."""

    def __init__(self, members: Sequence[Stepper]) -> None:
        """Raises ValueError if there is no member."""
        if not members:
            raise ValueError("an ensemble of no models")
        self.members = tuple(members)

    def start(self, source: Any, columns: Tensor | None = None) -> EnsembleState:
        """See Stepper; every member reads the same source."""
        return EnsembleState(tuple(member.start(source, columns) for member in self.members))

    def step(self, token: Tensor, state: EnsembleState) -> EnsembleStep:
        """See Stepper."""
        steps: tuple[Step, ...] = tuple(m.step(token, s) for m, s in zip(self.members, state.members, strict=True))
        given = [step.attention.float().mean(1, keepdim=True) for step in steps if step.attention is not None]
        return EnsembleStep(
            members=steps,
            state=EnsembleState(tuple(step.state for step in steps)),
            attention=torch.stack(given).mean(0) if given else None,
        )
