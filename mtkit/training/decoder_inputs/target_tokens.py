"""A micro-batch whose decoder reads other ids than the true ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Target
from mtkit.models.interface import TranslationModel
from mtkit.training.chunked_loss import CHUNK


@dataclass(frozen=True)
class Places:
    """Target places [M] that hold a token which is not a sentence's first, sentence by sentence.

    Attributes:
        sentence, column: where each place is.
        before: the column of the token before it.
        ordinal: how many tokens of the sentence are before it.
    """

    sentence: Tensor
    column: Tensor
    before: Tensor
    ordinal: Tensor

    @classmethod
    def of(cls, target: Target) -> Places:
        """All of them; padding may be anywhere."""
        columns = torch.arange(target.ids.size(1), device=target.ids.device).expand_as(target.ids)  # [B, T]
        last = torch.where(target.real, columns, 0).cummax(1).values  # [B, T]
        ordinal = target.real.cumsum(1) - 1  # [B, T]
        sentence, column = (target.real & (ordinal > 0)).nonzero(as_tuple=True)  # [M]
        return cls(sentence, column, last[sentence, column - 1], ordinal[sentence, column])

    def select(self, chosen: Tensor) -> Places:
        """Those of the places where `chosen` [M] is True."""
        return Places(self.sentence[chosen], self.column[chosen], self.before[chosen], self.ordinal[chosen])

    def read(self, target: Target, ids: Tensor) -> Target:
        """The target with `ids` [M] at these places."""
        return replace(target, ids=target.ids.index_put((self.sentence, self.column), ids))

    def values(self, of: Tensor) -> Tensor:
        """[B, T] -> [M]."""
        return of[self.sentence, self.column]

    def apply(
        self, model: TranslationModel, hidden: Tensor, function: Callable[..., Tensor], *aligned: Tensor
    ) -> Tensor:
        """`function(logits [n, V], ...)` of what a model in the states [B, T, D] expects at these places: [M].

        Logits are there for n places at a time; `function` is given the same places of each of `aligned` [M].
        """
        rows = hidden[self.sentence, self.before]  # [M, D]
        parts = zip(*(torch.split(each, CHUNK) for each in (rows, *aligned)), strict=True)
        return torch.cat([function(model.output(part), *others) for part, *others in parts])


def states(model: TranslationModel, batch: Batch, target: Target) -> Tensor:
    """Decoder states [N, D] of the scored places of a micro-batch that reads `target`."""
    return model.hidden(batch.source, target)[batch.scored]
