"""How search sees a model: `start` and `step`, and a state of which it may only choose rows and sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from mtkit.search.beam.selection import Selection
from mtkit.search.constraints.constraint import Constraint


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


@dataclass(frozen=True)
class Symbols:
    """The ids that search knows by meaning; `banned` are never generated (padding, control pieces)."""

    size: int  # V
    bos: int
    eos: int
    banned: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Request:
    """B sentences to translate at once.

    Attributes:
        source: what the stepper's `start` takes; search does not look into it.
        max_length: [B] int64, pieces at most, the end of sentence not counted.
        min_length: [B] int64, pieces at least; where it is above `max_length`, that holds.
        lines: [B] int64, a number for each sentence that does not depend on its batch (seeds of sampling).
        real: [B, S] where the source holds tokens; only a coverage penalty asks for it.
        constraints: those of these sentences (a prefix, phrases), applied after the search's own.
        selection: takes the place of the search's own where a beam is searched; of one group.
        columns: [C] the ids to which the output is narrowed (a shortlist, with `eos` in it), or None.
    """

    source: Any
    max_length: Tensor
    min_length: Tensor
    lines: Tensor
    real: Tensor | None = None
    constraints: tuple[Constraint, ...] = ()
    columns: Tensor | None = None
    selection: Selection | None = None

    @classmethod
    def of(cls, source: Any, max_length: Tensor, *, columns: Tensor | None = None) -> Request:
        """A request with no minimum and sentences numbered from 0."""
        return cls(
            source=source,
            max_length=max_length,
            min_length=torch.zeros_like(max_length),
            lines=torch.arange(max_length.numel(), device=max_length.device),
            columns=columns,
        )

    @property
    def num_sentences(self) -> int:
        """B."""
        return self.max_length.numel()


class Columns:
    """The one place where columns of narrowed logits and ids of the vocabulary are mapped to each other."""

    def __init__(self, symbols: Symbols, columns: Tensor | None, device: torch.device) -> None:
        """Raises ValueError if there are columns and `eos` is none of them; `device` is that of the logits."""
        self.ids = columns
        if columns is None:
            self.eos = symbols.eos
            banned = list(symbols.banned)
        else:
            found = columns.tolist()
            if symbols.eos not in found:
                raise ValueError(f"the end of sentence ({symbols.eos}) is not among the {len(found)} columns")
            self.eos = found.index(symbols.eos)
            banned = [column for column, piece in enumerate(found) if piece in set(symbols.banned)]
        self.banned = torch.tensor(banned, dtype=torch.int64, device=device)

    def widen(self, log_prob: Tensor, size: int) -> Tensor:
        """Log-probabilities [rows, C] as [rows, V], -inf where there is no column."""
        if self.ids is None:
            return log_prob
        wide = log_prob.new_full((log_prob.size(0), size), float("-inf"))  # [rows, V]
        wide[:, self.ids] = log_prob
        return wide

    def to_ids(self, column: Tensor) -> Tensor:
        """Ids of columns, any shape."""
        return column if self.ids is None else self.ids[column]


@dataclass(frozen=True)
class Hypothesis:
    """One ended translation of one sentence.

    Attributes:
        tokens: ids without `bos` and `eos`.
        log_prob: the model's own log-probability of the tokens and the end of sentence, nats.
        score: what it was ranked by (after length penalty, coverage and constraints).
        piece_log_probs: of each token and, last, of the end of sentence; they sum to `log_prob`.
        finished: False if a limit or a constraint forced the end.
        attention: [T, S] weights over the source for each token, mean of heads, if they were asked for.
    """

    tokens: list[int]
    log_prob: float
    score: float
    piece_log_probs: list[float]
    finished: bool = True
    attention: Tensor | None = None
