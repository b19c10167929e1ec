"""The best pieces of each row and the normaliser of each row, without writing log-probabilities of a vocabulary.

Measured on CPU, [640, 8000], one thread: `topk(5)` 6.7 ms, in groups 1.3 ms; `logsumexp` 6.4 ms, through the fused
`log_softmax` 3.5 ms; `argmax` of bfloat16 18 ms, as float32 in groups 1.5 ms.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

GROUPS = 256  # columns are dealt to this many groups; best of 64 ... 1024 for vocabularies of 8,000 to 32,000
ROWS_AT_ONCE = 64  # so that the temporaries of a chunk stay in the processor's cache


class Top(NamedTuple):
    """The best columns of each row, best first."""

    value: Tensor  # [rows, count] float32
    column: Tensor  # [rows, count] int64


def top_columns(logits: Tensor, count: int) -> Top:
    """The `count` largest of each row of `logits` [rows, V]; all of them if V is smaller.

    The largest `count` lie in the `count` groups with the largest maxima, so that only these are looked into.
    """
    rows, vocab = logits.shape
    count = min(count, vocab)
    depth = vocab // GROUPS
    if logits.is_cuda or depth < 2 or count * 4 > GROUPS:
        value, column = logits.float().topk(count)
        return Top(value, column)
    whole = depth * GROUPS
    groups = logits[:, :whole].view(rows, depth, GROUPS).amax(1)  # [rows, GROUPS]
    chosen = groups.float().topk(count).indices  # [rows, count]
    inside = torch.arange(0, whole, GROUPS, device=logits.device)  # [depth]
    column = (chosen.unsqueeze(2) + inside).flatten(1)  # [rows, count·depth]
    rest = torch.arange(whole, vocab, device=logits.device).expand(rows, -1)  # [rows, V - whole]
    column = torch.cat([column, rest], dim=1)
    value, place = logits.gather(1, column).float().topk(count)
    return Top(value, column.gather(1, place))


def with_columns(top: Top, logits: Tensor, wanted: Tensor) -> Top:
    """`top` of `logits` and behind it the columns `wanted` [rows, E], -inf where they are there already or below 0."""
    column = torch.cat([top.column, wanted.clamp(min=0)], dim=1)  # [rows, K + E]
    known = torch.cat([top.column, wanted], dim=1)
    again = (wanted.unsqueeze(2) == known.unsqueeze(1)).tril(top.column.size(1) - 1).any(2)  # [rows, E]
    value = logits.gather(1, column[:, top.column.size(1) :]).float().masked_fill(again | (wanted < 0), float("-inf"))
    return Top(torch.cat([top.value, value], dim=1), column)


def log_normaliser(logits: Tensor) -> Tensor:
    """log sum exp of each row of `logits` [rows, V], in float32 [rows]."""
    if logits.is_cuda:
        return logits.float().logsumexp(-1)
    parts = []
    for part in torch.split(logits, ROWS_AT_ONCE):
        wide = part.float()
        column = wide.argmax(-1, keepdim=True) if wide.size(1) < GROUPS else top_columns(wide, 1).column
        log_prob = wide.log_softmax(-1).gather(1, column)  # at the largest, where cancellation is least
        parts.append((wide.gather(1, column) - log_prob).squeeze(1))
    return torch.cat(parts) if parts else logits.new_zeros(0, dtype=torch.float32)
