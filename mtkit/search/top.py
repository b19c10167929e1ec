"""The best pieces of each row and the normaliser of each row, without writing log-probabilities of a vocabulary.

Search looks at a few rows at a time (`parts`), so that their logits stay in the processor's cache until all is done.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

# Columns are dealt to so many groups. Of 64 rows of 10,000, on one thread of an Intel Xeon, the largest of each of 100
# groups take 93 µs, the 5 best among these 21 and those of what is inside 75; with 320 groups it is 89, 54 and 58.
GROUPS = range(96, 128)
MOST_WANTED = 12  # columns of a row for which so many groups are enough; for more there are more groups
ROWS_AT_ONCE = 64  # 2 MB of logits over 8,000 pieces
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
    depth, flat = vocab // groups, logits.view(-1, together * vocab)  # [n, together·V]
    if logits.is_cuda or depth < 2:
        place = _raised(logits.float(), offset).view(flat.shape).topk(count).indices  # [n, count]
        return Top(flat.gather(1, place).float(), place // vocab, place % vocab)
    whole = depth * groups
    largest = logits[:, :whole].view(rows, depth, groups).amax(1).float()  # [rows, groups]
    chosen = _raised(largest, offset).view(-1, together * groups).topk(count).indices  # [n, count]
    inside = torch.arange(0, whole, groups, device=logits.device)  # [depth]
    row = (chosen // groups).repeat_interleave(depth, dim=1)  # [n, count·depth]
    column = ((chosen % groups).unsqueeze(2) + inside).flatten(1)
    if whole < vocab:
        rest = torch.cartesian_prod(
            torch.arange(together, device=logits.device), torch.arange(whole, vocab, device=logits.device)
        )  # [together·rest, 2]
        row = torch.cat([row, rest[:, 0].expand(row.size(0), -1)], dim=1)
        column = torch.cat([column, rest[:, 1].expand(row.size(0), -1)], dim=1)
    value = flat.gather(1, column if together == 1 else column + row * vocab).float()
    raised = value if offset is None else value + offset.view(-1, together).gather(1, row)
    best = raised.topk(count).indices  # [n, count]
    return Top(*(each.gather(1, best) for each in (value, row, column)))


def _raised(values: Tensor, offset: Tensor | None) -> Tensor:
    return values if offset is None else values + offset.unsqueeze(1)


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
    mass = torch.cat([part.float().exp().sum(1) for part in torch.split(logits, EXPONENTIALS_AT_ONCE)])  # [rows]
    least, most = mass.aminmax()
    if least > LEAST_MASS and most < float("inf"):  # logits of a trained model are small enough
        return mass.log()
    in_range = (mass > LEAST_MASS) & (mass < float("inf"))
    return torch.where(in_range, mass.log(), logits.float().logsumexp(1))
