"""The best pieces of each row and the normaliser of each row, without writing log-probabilities of a vocabulary.

Search looks at a few rows at a time (`parts`), so that their logits stay in the processor's cache until all is done.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# So many groups of neighbouring columns. Of 64 rows of 10,000, on one thread of an Intel Xeon, the largest of each of
# 100 groups took 123 µs, compared as whole numbers 68; with 200 groups it was 420 and 120.
GROUPS = range(96, 128)


MOST_WANTED = 12  # columns of a row for which so many groups are enough; for more there are more groups


ROWS_AT_ONCE = 128  # 4 MB of logits over 8,000 pieces; with 64 a beam of 5 took 3% more, with 80 to 240 as much


EXPONENTIALS_AT_ONCE = 16  # rows; what is written beside the logits stays in the nearest cache


LEAST_MASS = 1e-30  # sum of exponentials below which too many of them are no numbers of full precision any more


def parts(rows: int, device: torch.device, together: int = 1) -> list[slice]:
    """All the rows, on a processor a few at a time, of which so many stay `together`."""
    at_once = max(1, rows if device.type == "cuda" else ROWS_AT_ONCE // together * together, together)
    return [slice(first, first + at_once) for first in range(0, rows, at_once)]


class Top(NamedTuple):
    """The best columns of each row, best first, or of several rows together."""

    value: Tensor  # [n, count] float32, of the logits
    row: Tensor  # [n, count] int64, which of the rows that are taken together
    column: Tensor  # [n, count] int64


def top_columns(logits: Tensor, count: int, offset: Tensor | None = None, together: int = 1) -> Top:
    """The `count` largest of every `together` rows of `logits` [n·together, V], or all of them if there are fewer.

    They lie in as many groups, those with the largest maxima, so that only these are looked into.

    Args:
        logits: of any float type.
        count: how many.
        offset: [n·together], what is added to the logits of each row before they are compared.
        together: how many rows compete with each other.
    """
    rows, vocab = logits.shape
    count = min(count, together * vocab)
    groups = num_groups(vocab, -(-count // together))
    depth = vocab // groups
    offset = logits.new_zeros(rows, dtype=torch.float32) if offset is None else offset
    if logits.is_cuda or depth < 2:
        values = (logits.float() + offset.unsqueeze(1)).view(-1, together * vocab)  # [n, together·V]
        place = values.topk(count).indices  # [n, count]
        return Top(logits.view(values.shape).gather(1, place).float(), place // vocab, place % vocab)
    grouped = _grouped(logits, groups, depth)  # [rows, G, depth]
    offset = offset.view(-1, together)  # [n, together]
    chosen = _best_groups(grouped, count, offset)  # [n, count]
    row, group = chosen // grouped.size(1), chosen % grouped.size(1)
    first = torch.arange(0, rows, together, device=logits.device).unsqueeze(1)  # [n, 1]
    inside = grouped[first + row, group].float()  # [n, count, depth]
    best = (inside + offset.gather(1, row).unsqueeze(2)).flatten(1).topk(count).indices  # [n, count]
    which = best // depth
    column = (group.gather(1, which) * depth + best % depth).clamp_(max=vocab - 1)  # of what is left over too
    return Top(inside.flatten(1).gather(1, best), row.gather(1, which), column)


def _grouped(logits: Tensor, groups: int, depth: int) -> Tensor:
    """Logits [rows, V] as [rows, G, depth], G = groups, or one more with what is left over and -inf."""
    whole = groups * depth
    left = logits.size(1) - whole
    if left == 0:
        return logits.view(-1, groups, depth)
    return F.pad(logits, (0, depth - left), value=float("-inf")).view(-1, groups + 1, depth)


def _best_groups(grouped: Tensor, count: int, offset: Tensor) -> Tensor:
    """Of the groups [n·together, G, depth] the `count` with the largest maxima plus offset [n, together]: [n, count].

    Positive floats are in the order of their bits as whole numbers, of which the maximum takes half the time. Other
    maxima come out too low by that, which matters only if one of them could be among the best.
    """

    def best(largest: Tensor) -> tuple[Tensor, Tensor]:  # of [n·together, G]
        raised = largest.view(*offset.shape, -1) + offset.unsqueeze(2)  # [n, together, G]
        return raised.flatten(1).topk(count)

    if grouped.dtype == torch.float32:
        value, chosen = best(grouped.view(torch.int32).amax(2).view(torch.float32))
        if bool((value[:, -1] >= offset.amax(1)).all()):
            return chosen
    return best(grouped.amax(2).float())[1]


@cache
def num_groups(vocab: int, count: int) -> int:
    """Of those in GROUPS, as often as so many columns of a row want it, the number that leaves the fewest over."""
    times = 1 + count // MOST_WANTED
    return min(range(GROUPS.start * times, GROUPS.stop * times), key=lambda groups: vocab % groups)


def with_columns(top: Top, logits: Tensor, wanted: Tensor) -> Top:
    """`top` of `logits` and behind it the columns `wanted` [rows, E], -inf where they are there already or below 0."""
    column = torch.cat([top.column, wanted.clamp(min=0)], dim=1)  # [rows, K + E]
    known = torch.cat([top.column, wanted], dim=1)
    again = (wanted.unsqueeze(2) == known.unsqueeze(1)).tril(top.column.size(1) - 1).any(2)  # [rows, E]
    value = logits.gather(1, column[:, top.column.size(1) :]).float().masked_fill(again | (wanted < 0), float("-inf"))
    return Top(torch.cat([top.value, value], dim=1), torch.zeros_like(column), column)


def log_normaliser(logits: Tensor) -> Tensor:
    """log sum exp of each row of `logits` [rows, V], in float32 [rows]."""
    if logits.is_cuda:
        return logits.float().logsumexp(-1)
    if logits.size(0) == 0:
        return logits.new_zeros(0, dtype=torch.float32)
    at_once = range(0, logits.size(0), EXPONENTIALS_AT_ONCE)
    mass = torch.cat([logits[row : row + EXPONENTIALS_AT_ONCE].float().exp().sum(1) for row in at_once])  # [rows]
    least, most = mass.aminmax()
    if float(least) > LEAST_MASS and float(most) < float("inf"):  # logits of a trained model are small enough
        return mass.log()
    in_range = (mass > LEAST_MASS) & (mass < float("inf"))
    return torch.where(in_range, mass.log(), logits.float().logsumexp(1))
