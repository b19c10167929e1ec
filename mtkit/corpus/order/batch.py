"""The input of a model: padded tensors of token ids with explicit positions.

B sentences, S source length, T target length. Nothing assumes that padding is on the right or that positions start at
0: `real` (the complement of a padding mask) marks tokens, and `pos` is the position of each token in its sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mtkit.corpus.order.ragged import Ragged
from mtkit.errors import DataError
from mtkit.text.vocab import Vocab

IdRows = Ragged | Sequence[Sequence[int]]  # token ids of B sentences, without bos and eos


@dataclass(frozen=True)
class Source:
    """The source side of B sentences; each ends with `eos`."""

    ids: Tensor  # [B, S] int64, padding anywhere
    real: Tensor  # [B, S] bool, False at padding
    pos: Tensor  # [B, S] int64

    def to(self, device: torch.device | str) -> Source:
        """The same sentences on another device."""
        return Source(self.ids.to(device), self.real.to(device), self.pos.to(device))

    def select(self, sentences: Tensor) -> Source:
        """The sentences [N] of this batch, in that order."""
        return Source(self.ids[sentences], self.real[sentences], self.pos[sentences])

    def split_by_padded_tokens(self, max_padded_tokens: int) -> list[Source]:
        """Consecutive chunks of at most `max_padded_tokens` tokens including padding, but at least one sentence each.

        Trailing columns in which no sentence of a chunk has a token are removed from the chunk.
        """
        numbers = torch.arange(1, self.ids.size(1) + 1, device=self.ids.device)
        ends = (numbers * self.real).amax(1).tolist() if self.ids.numel() else []  # column after each last token
        chunks, first, width = [], 0, 1
        for row, end in enumerate([*ends, max_padded_tokens + 1]):  # the sentinel at the end fits into no chunk
            new_width = max(width, end)
            if row > first and (row + 1 - first) * new_width > max_padded_tokens:
                chunks.append(Source(*(x[first:row, :width] for x in (self.ids, self.real, self.pos))))
                first, new_width = row, max(1, end)
            width = new_width
        return chunks or [self]


@dataclass(frozen=True)
class Target:
    """The decoder input in teacher forcing: `bos` first, `eos` not included."""

    ids: Tensor  # [B, T] int64
    real: Tensor  # [B, T] bool, False at padding
    pos: Tensor  # [B, T] int64

    def to(self, device: torch.device | str) -> Target:
        """The same sentences on another device."""
        return Target(self.ids.to(device), self.real.to(device), self.pos.to(device))


@dataclass(frozen=True)
class Batch:
    """One micro-batch of parallel sentences.

    Attributes:
        labels: [B, T] int64, the token that follows `target.ids` at each position (`eos` last).
        loss_mask: [B, T] bool, True where the label counts in the loss.
        sample_ids: [B] int64, index of each sentence in the training corpus; stays on the CPU.
    """

    source: Source
    target: Target
    labels: Tensor
    loss_mask: Tensor
    sample_ids: Tensor

    @property
    def num_sentences(self) -> int:
        """B."""
        return self.labels.size(0)

    def to(self, device: torch.device | str) -> Batch:
        """The same micro-batch on another device."""
        return Batch(
            source=self.source.to(device),
            target=self.target.to(device),
            labels=self.labels.to(device),
            loss_mask=self.loss_mask.to(device),
            sample_ids=self.sample_ids,
        )


def collate(
    src: IdRows,
    tgt: IdRows,
    sample_ids: NDArray[np.integer[Any]] | Sequence[int],
    vocab_src: Vocab,
    vocab_tgt: Vocab,
    *,
    loss_mask: Ragged | None = None,
) -> Batch:
    """One micro-batch of B parallel sentences, padded on the right; B may be 0.

    The source is tokens + eos [B, S], the decoder input bos + tokens [B, T], the labels are tokens + eos [B, T]. Every
    real target position is in the loss, unless `loss_mask` selects tokens (then eos is not in the loss).

    Raises:
        ValueError: the numbers of rows differ.
        DataError: an id is outside its vocabulary.
    """
    tgt_rows = Ragged.of(tgt)
    source = collate_source(src, vocab_src)
    if not len(tgt_rows) == source.ids.size(0) == len(sample_ids):
        raise ValueError(f"{source.ids.size(0)} sources, {len(tgt_rows)} targets and {len(sample_ids)} sample ids")
    _check_ids(tgt_rows, vocab_tgt)
    labels = tgt_rows.padded(pad=vocab_tgt.pad, after=vocab_tgt.eos)  # [B, T]
    ids = tgt_rows.padded(pad=vocab_tgt.pad, before=vocab_tgt.bos)  # [B, T]
    real, pos = real_and_pos(tgt_rows.lengths + 1, labels.shape)
    return Batch(
        source=source,
        target=Target(ids=torch.from_numpy(ids), real=real, pos=pos),
        labels=torch.from_numpy(labels),
        loss_mask=real if loss_mask is None else torch.from_numpy(loss_mask.padded(pad=0, after=0)) > 0,
        sample_ids=torch.from_numpy(np.asarray(sample_ids, dtype=np.int64)),
    )


def collate_source(src: IdRows, vocab: Vocab) -> Source:
    """The source side of B sentences: tokens + eos [B, S], padded on the right; B may be 0.

    Raises:
        DataError: an id is outside the vocabulary.
    """
    rows = Ragged.of(src)
    _check_ids(rows, vocab)
    ids = rows.padded(pad=vocab.pad, after=vocab.eos)  # [B, S]
    real, pos = real_and_pos(rows.lengths + 1, ids.shape)
    return Source(ids=torch.from_numpy(ids), real=real, pos=pos)


def real_and_pos(lengths: NDArray[np.int64], shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """`real` and `pos`, both of `shape`, of left-aligned rows."""
    columns = np.arange(shape[1])
    real = columns < lengths[:, None]
    return torch.from_numpy(real), torch.from_numpy(np.broadcast_to(columns, shape).copy())


def dummy_batch(sentences: int, length: int, src: Vocab, tgt: Vocab) -> Batch:
    """A micro-batch without padding, for measurements: the last token of each vocabulary; `length` includes eos."""
    src_rows, tgt_rows = ([[vocab.size - 1] * (length - 1)] * sentences for vocab in (src, tgt))
    return collate(src_rows, tgt_rows, list(range(sentences)), src, tgt)


def _check_ids(rows: Ragged, vocab: Vocab) -> None:
    max_id = int(rows.flat.max(initial=0))
    if max_id >= vocab.size:
        raise DataError(
            f"token id {max_id} is outside a vocabulary of {vocab.size}: the corpus is damaged or was built with "
            "another tokenizer; rebuild it with mtkit preprocess"
        )
