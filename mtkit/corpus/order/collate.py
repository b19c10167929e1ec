"""Rows of ids -> the padded tensors that a model takes."""

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

Rows = Ragged | Sequence[Sequence[int]]  # pieces of B sentences, without bos and eos


def collate(
    src: Rows,
    tgt: Rows,
    samples: NDArray[np.integer[Any]] | Sequence[int],
    vocab_src: Vocab,
    vocab_tgt: Vocab,
    *,
    scored: Ragged | None = None,
) -> Batch:
    """One micro-batch of B parallel sentences, padded on the right; B may be 0.

    The source is pieces + eos [B, S], what the decoder reads is bos + pieces [B, T], the labels are pieces + eos
    [B, T]; every real place of the target is scored, unless `scored` says for each piece whether it is.

    Raises:
        ValueError: the numbers of rows differ.
        DataError: an id is outside its vocabulary.
    """
    packed = Ragged.of(tgt)
    source = collate_source(src, vocab_src)
    if not len(packed) == source.ids.size(0) == len(samples):
        raise ValueError(f"{source.ids.size(0)} sources, {len(packed)} targets and {len(samples)} sample numbers")
    _check_ids(packed, vocab_tgt)
    labels = packed.padded(pad=vocab_tgt.pad, after=vocab_tgt.eos)  # [B, T]
    ids = packed.padded(pad=vocab_tgt.pad, before=vocab_tgt.bos)  # [B, T]
    real, pos = _places(packed.lengths + 1, labels.shape)
    target = Target(ids=torch.from_numpy(ids), real=real, pos=pos)
    numbers = torch.from_numpy(np.asarray(samples, dtype=np.int64))  # [B]
    asked = real if scored is None else torch.from_numpy(scored.padded(pad=0, after=0)) > 0  # [B, T]
    return Batch(source=source, target=target, labels=torch.from_numpy(labels), scored=asked, samples=numbers)


def collate_source(src: Rows, vocab: Vocab) -> Source:
    """The source side of B sentences: pieces + eos [B, S], padded on the right; B may be 0.

    Raises:
        DataError: an id is outside the vocabulary.
    """
    packed = Ragged.of(src)
    _check_ids(packed, vocab)
    ids = packed.padded(pad=vocab.pad, after=vocab.eos)  # [B, S]
    real, pos = _places(packed.lengths + 1, ids.shape)
    return Source(ids=torch.from_numpy(ids), real=real, pos=pos)


def _places(lengths: NDArray[np.int64], shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """`real` and `pos`, both of `shape`, of rows that begin on the left."""
    place = np.arange(shape[1])
    real = place < lengths[:, None]
    return torch.from_numpy(real), torch.from_numpy(np.broadcast_to(place, shape).copy())


def _check_ids(rows: Ragged, vocab: Vocab) -> None:
    highest = int(rows.flat.max(initial=0))
    if highest >= vocab.size:
        raise DataError(
            f"piece {highest} is outside a vocabulary of {vocab.size}: the corpus is damaged or was made with another "
            "tokenizer; mtkit preprocess makes it again"
        )
