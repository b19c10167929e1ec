"""What a decoder carries from one step to the next, as a value.

`memory` has one row per sentence and is never copied per beam nor reordered; `cache` has one row per hypothesis, or one
per sentence and a mask of what each hypothesis has of it (see layers/key_tree.py). The W hypotheses of sentence b are
the rows b·W ... b·W + W - 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor

from mtkit.layers.cache.state import Rows
from mtkit.layers.screened_linear import ScreenedLinear


@dataclass(frozen=True)
class State:
    """Everything that decoding needs besides the model.

    Attributes:
        memory: what the decoder attends to, one row per sentence.
        cache: what it has computed so far, one row per hypothesis.
        num_sentences: B.
        num_rows: B·W.
        logits: the output projection, [rows, D] -> [rows, V or C]; narrowed if there is a shortlist.
    """

    memory: Rows
    cache: Rows
    num_sentences: int
    num_rows: int
    logits: Callable[[Tensor], Tensor]

    def select_rows(self, rows: Tensor) -> State:
        """Reorder, repeat or drop hypotheses; `rows` [B·W'] keeps them grouped by sentence."""
        return replace(self, cache=self.cache.select(rows), num_rows=rows.numel())

    def keep_sentences(self, sentences: Tensor) -> State:
        """Keep the sentences [N] and all their hypotheses; the others leave the batch, and `self` is used up."""
        width = self.num_rows // self.num_sentences
        return replace(
            self,
            memory=self.memory.keep(sentences, self.num_sentences),
            cache=self.cache.keep(sentences, self.num_sentences),
            num_sentences=sentences.numel(),
            num_rows=width * sentences.numel(),
        )


class Step(NamedTuple):
    """One decoder position."""

    hidden: Tensor  # [rows, D]
    state: State
    attention: Tensor | None  # [rows, H, S], weights over the source

    def logits(self, rows: slice = slice(None)) -> Tensor:
        """Of the next piece for n rows [n, V], or [n, C] if `start` was given columns; computed here."""
        return self.state.logits(self.hidden[rows])

    def argmax(self, banned: Tensor) -> Tensor | None:
        """The column [rows] of the largest logit but for the columns `banned`, if that is found without all logits."""
        projection = self.state.logits
        return projection.argmax(self.hidden, banned) if isinstance(projection, ScreenedLinear) else None
