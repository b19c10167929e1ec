"""A tree of tensors with one row per sentence or per hypothesis."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """A tree of tensors that all have the same first dimension; subclasses are frozen dataclasses.

    A field is a tensor, another `Rows`, a tuple of these, or None.
    """

    def select(self, rows: Tensor) -> Self:
        """The rows [N] of every tensor, in that order."""
        return replace(self, **{f.name: _select(getattr(self, f.name), rows) for f in fields(self)})


def _select(value: Any, rows: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(0, rows)
    if isinstance(value, Rows):
        return value.select(rows)
    if isinstance(value, tuple):
        return tuple(_select(item, rows) for item in value)
    return value
