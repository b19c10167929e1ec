"""Decoder state: dataclasses of tensors with one row per sentence or per hypothesis."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class BatchedState:
    """Base of all decoder states: a frozen dataclass of tensors whose first axis is the batch.

    A field is a tensor, another BatchedState, a tuple of these, or None. A subclass with other fields (KVCache)
    overrides both methods.

    A state can be continued in several ways, since `index_select` and the steps of a decoder leave it valid. `compact_`
    is the exception: it moves rows within the same memory.
    """

    def index_select(self, rows: Tensor) -> Self:
        """Select the rows [N] of every tensor, in that order. `self` stays valid."""
        return replace(self, **{f.name: _index_select(getattr(self, f.name), rows) for f in fields(self)})

    def compact_(self, sentences: Tensor, num_sentences: int) -> Self:
        """Drop all but some sentences. `self` must not be used afterwards: its memory may have been overwritten.

        Args:
            sentences: [N], the sentences to keep, in their new order.
            num_sentences: B; every sentence has the same number of consecutive rows.
        """
        return replace(
            self, **{f.name: _compact(getattr(self, f.name), sentences, num_sentences) for f in fields(self)}
        )


@dataclass(frozen=True)
class EmptyState(BatchedState):
    """No state: the memory of a decoder without attention, or the cache of one that forgets its preceding tokens."""


@dataclass(frozen=True)
class AttentionState(BatchedState):
    """State of one self-attention layer of a decoder; its kernel defines the contents."""

    def group_by_sentence(self, x: Tensor) -> Tensor:
        """Tensor of T new tokens per hypothesis [rows, T, ...], with as many rows as the state has."""
        return x


def row_indices(sentences: Tensor, num_sentences: int, num_rows: int) -> Tensor:
    """Indices of all rows of some `sentences` [N], where `num_sentences` sentences have `num_rows` rows together."""
    if num_rows == num_sentences:
        return sentences
    width = num_rows // max(1, num_sentences)
    return (sentences.unsqueeze(1) * width + torch.arange(width, device=sentences.device)).flatten()


def _index_select(value: Any, rows: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(0, rows)
    if isinstance(value, BatchedState):
        return value.index_select(rows)
    if isinstance(value, tuple):
        return tuple(_index_select(item, rows) for item in value)
    return value


def _compact(value: Any, sentences: Tensor, num_sentences: int) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(0, row_indices(sentences, num_sentences, value.size(0)))
    if isinstance(value, BatchedState):
        return value.compact_(sentences, num_sentences)
    if isinstance(value, tuple):
        return tuple(_compact(item, sentences, num_sentences) for item in value)
    return value
