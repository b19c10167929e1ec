"""A tree of tensors with one row per sentence or per hypothesis."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """A tree of tensors with rows for hypotheses, or for groups of them; subclasses are frozen dataclasses.

    A field is a tensor, another `Rows`, a tuple of these, or None.
    """

    def select(self, rows: Tensor) -> Self:
        """The rows [N] of every tensor, in that order."""
        return replace(self, **{f.name: _select(getattr(self, f.name), rows) for f in fields(self)})

    def keep(self, sentences: Tensor, of: int) -> Self:
        """Keep the sentences [N] of `of`, each of which has the same number of rows, one after another.

        What was kept from is used up: what takes its place may have been written over it.
        """
        return replace(self, **{f.name: _keep(getattr(self, f.name), sentences, of) for f in fields(self)})


def rows_of(sentences: Tensor, of: int, rows: int) -> Tensor:
    """The numbers of all rows that some sentences have, where `of` sentences have so many `rows` together."""
    if rows == of:
        return sentences
    each = rows // max(1, of)
    return (sentences.unsqueeze(1) * each + torch.arange(each, device=sentences.device)).flatten()


def _select(value: Any, rows: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(0, rows)
    if isinstance(value, Rows):
        return value.select(rows)
    if isinstance(value, tuple):
        return tuple(_select(item, rows) for item in value)
    return value


def _keep(value: Any, sentences: Tensor, of: int) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(0, rows_of(sentences, of, value.size(0)))
    if isinstance(value, Rows):
        return value.keep(sentences, of)
    if isinstance(value, tuple):
        return tuple(_keep(item, sentences, of) for item in value)
    return value
