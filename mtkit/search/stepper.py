"""How search sees a model: `start` and `step`, and a state of which it may only choose rows and sentences."""

from __future__ import annotations

from typing import Any, Protocol, Self

from torch import Tensor


class State(Protocol):
    """What a decoder carries; the W hypotheses of sentence b are the rows b·W ... b·W + W - 1."""

    @property
    def num_sentences(self) -> int:
        """B."""

    @property
    def num_rows(self) -> int:
        """B·W."""

    def select_rows(self, rows: Tensor) -> Self:
        """Reorder, repeat or drop hypotheses; `rows` [B·W'] keeps them grouped by sentence."""

    def keep_sentences(self, sentences: Tensor) -> Self:
        """Keep the sentences [N] with all their hypotheses; the others leave."""


class Step(Protocol):
    """One decoder position of every hypothesis."""

    @property
    def state(self) -> State:
        """The next state."""

    @property
    def attention(self) -> Tensor | None:
        """[rows, H, S], weights over the source."""

    def logits(self, rows: slice = slice(None)) -> Tensor:
        """Those of n rows [n, V], or [n, C] if there is a shortlist; any float type.

        They may be computed when they are asked for, which is once for each row, and search may write into them.
        """

    def argmax(self, banned: Tensor) -> Tensor | None:
        """The column [rows] of the largest logit but for the columns `banned`, if that is found without all logits."""


class Stepper(Protocol):
    """A model, an ensemble, or a scripted table of a test."""

    def start(self, source: Any, columns: Tensor | None = None) -> Any:
        """Encode B sentences; the state has one row for each. `columns` [C] narrows the logits to these ids."""

    def step(self, token: Tensor, state: Any) -> Step:
        """Feed one token [rows] to each hypothesis (`bos` first) and give the logits of the next."""
