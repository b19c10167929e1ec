"""The best pieces of each row and the normaliser of each row, without writing log-probabilities of a vocabulary.

Search looks at a few rows at a time (`parts`), so that their logits stay in the processor's cache until all is done.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

# Columns are dealt to so many groups: torch's topk of 5 among 320 is twice as fast as among 256, since it sorts only in
# part where at most one in 64 is wanted; more groups, up to 1,024, were slower for vocabularies of 8,000 to 32,000.
GROUPS = range(320, 448)
ROWS_AT_ONCE = 64  # 2 MB of logits over 8,000 pieces
EXPONENTIALS_AT_ONCE = 32  # rows; half as many bytes are written beside the logits
LEAST_MASS = 1e-30  # sum of exponentials below which too many of them are no numbers of full precision any more


def parts(rows: int, device: torch.device) -> list[slice]:
    """All the rows, on a processor a few at a time."""
    at_once = rows if device.type == "cuda" else ROWS_AT_ONCE
    return [slice(first, first + at_once) for first in range(0, rows, at_once)]


class Top(NamedTuple):
    """The best columns of each row, best first."""

    value: Tensor  # [rows, count] float32
    column: Tensor  # [rows, count] int64


def top_columns(logits: Tensor, count: int) -> Top:
    """The `count` largest of each row of `logits` [rows, V]; all of them if V is smaller.

    The largest `count` lie in the `count` groups with the largest maxima, so that only these are looked into.
    """
    vocab = logits.size(1)
    count = min(count, vocab)
    groups = num_groups(vocab)
    if logits.is_cuda or vocab // groups < 2 or count * 4 > groups:
        value, column = logits.float().topk(count)
        return Top(value, column)
    rows, depth = logits.size(0), vocab // groups
    whole = depth * groups
    largest = logits[:, :whole].view(rows, depth, groups).amax(1)  # [rows, groups]
    chosen = largest.float().topk(count).indices  # [rows, count]
    inside = torch.arange(0, whole, groups, device=logits.device)  # [depth]
    column = (chosen.unsqueeze(2) + inside).flatten(1)  # [rows, count·depth]
    rest = torch.arange(whole, vocab, device=logits.device).expand(rows, -1)  # [rows, V - whole]
    column = torch.cat([column, rest], dim=1)
    value, place = logits.gather(1, column).float().topk(count)
    return Top(value, column.gather(1, place))


@cache
def num_groups(vocab: int) -> int:
    """Of GROUPS the number that leaves the fewest columns over."""
    return min(GROUPS, key=lambda groups: vocab % groups)


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
    if logits.size(0) == 0:
        return logits.new_zeros(0, dtype=torch.float32)
    mass = torch.cat([part.float().exp().sum(1) for part in torch.split(logits, EXPONENTIALS_AT_ONCE)])  # [rows]
    least, most = mass.aminmax()
    if least > LEAST_MASS and most < float("inf"):  # logits of a trained model are small enough
        return mass.log()
    in_range = (mass > LEAST_MASS) & (mass < float("inf"))
    return torch.where(in_range, mass.log(), logits.float().logsumexp(1))
