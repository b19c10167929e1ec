"""Collation: ragged rows of token ids to padded tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.corpus.order.ragged import Ragged
from mtkit.errors import DataError
from mtkit.text.vocab import Vocab

IdRows = Ragged | Sequence[Sequence[int]]  # token ids of B sentences, without bos and eos


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
