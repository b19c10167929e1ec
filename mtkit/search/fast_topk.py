"""Top-k and log-normaliser of rows of logits, without writing log-probabilities of the whole vocabulary.

Beam search needs the k largest of V·W values at each step, with V about 10,000 and k about 5, for
which a full `torch.topk` is slow on a CPU. `top_k` finds the same values from the maxima of blocks of columns:

    1. Divide the columns of a row into about 100 blocks of neighbours, and take the maximum of each block.
    2. Take the k blocks with the largest maxima.
    3. Take the k largest values inside these blocks.

The k largest values lie in these blocks: suppose that one of them, x, lies in another block. The maximum of that block
is at least x and was still not among the k largest maxima, so that k blocks have a maximum of at least x each. Those
are k values of at least x outside x's block: x can be replaced by one of them without changing the k largest values.
Step 1 reads the logits once, in order; step 3 looks at k of 100 blocks. Several rows that compete (the hypotheses of a
beam) are treated alike, each with an offset, its log-probability so far, that is added to the maxima in step 2.

Search takes a few rows at a time (`row_chunks`), so that their logits stay in the processor's cache throughout.
The constants were measured: see tools/benchmarks/NOTES.md.
"""

from __future__ import annotations

import time
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCKS = range(96, 128)  # blocks of a row
COLUMNS_PER_BLOCKS = 12  # the number of blocks grows by BLOCKS with each further 12 columns of a row that are requested
CHUNK_ROWS = 128  # 4 MB of float32 logits for 8,000 tokens
SAME_ORDER = {torch.float32: torch.int32, torch.bfloat16: torch.int16}  # of positive numbers
EXP_CHUNK_ROWS = 16  # the exponentials of this many rows stay in the nearest cache
MIN_EXP_SUM = 1e-20  # of exponentials: terms below the smallest float32 are then lost in rounding
EXP_TRIALS, EXP_TRIAL_COLUMNS = 7, 8_000
MIN_EXP_SPEEDUP = 1.3  # for a choice that noise does not change from one process to the next


def row_chunks(num_rows: int, device: torch.device, rows_per_beam: int = 1) -> list[slice]:
    """All rows in chunks of whole beams, at most CHUNK_ROWS rows unless a beam has more; a single chunk on a GPU."""
    whole_beams = CHUNK_ROWS // rows_per_beam * rows_per_beam
    size = max(1, num_rows if device.type == "cuda" else whole_beams, rows_per_beam)
    return [slice(first, first + size) for first in range(0, num_rows, size)]


class TopK(NamedTuple):
    """The best columns of each beam, best first."""

    value: Tensor  # [beams, K] float32, of the logits
    row: Tensor  # [beams, K] int64, index among all rows of the logits
    column: Tensor  # [beams, K] int64


def top_k(logits: Tensor, count: int, offset: Tensor | None = None, rows_per_beam: int = 1) -> TopK:
    """The `count` largest logits plus offset of each beam, or all of them if there are fewer.

    Equal to this, except that among equal values another column may be chosen:

        values = (logits.float() + offset.unsqueeze(1)).view(-1, rows_per_beam * V)
        index = values.topk(count).indices
        row = torch.arange(0, rows, rows_per_beam).unsqueeze(1) + index // V
        return TopK(logits.view(values.shape).gather(1, index).float(), row, index % V)

    Args:
        logits: [beams·rows_per_beam, V], of any float type.
        count: K.
        offset: [beams·rows_per_beam], added to the logits of each row before they are compared; None: 0.
        rows_per_beam: number of rows that compete with each other.
    """
    rows, vocab = logits.shape
    count = min(count, rows_per_beam * vocab)
    blocks = num_blocks(vocab, -(-count // rows_per_beam))
    depth = vocab // blocks  # columns of a block
    offset = logits.new_zeros(rows, dtype=torch.float32) if offset is None else offset
    first = torch.arange(0, rows, rows_per_beam, device=logits.device).unsqueeze(1)  # [beams, 1]
    if logits.is_cuda or depth < 2:
        values = (logits.float() + offset.unsqueeze(1)).view(-1, rows_per_beam * vocab)  # [beams, rows_per_beam·V]
        index = values.topk(count).indices  # [beams, K]
        return TopK(logits.view(values.shape).gather(1, index).float(), first + index // vocab, index % vocab)
    left_over = vocab - blocks * depth
    if left_over:  # these columns make one more block, padded with -inf
        logits = F.pad(logits, (0, depth - left_over), value=float("-inf"))
    blocked = logits.view(rows, -1, depth)  # [rows, blocks, depth]
    best_blocks = _best_blocks(blocked, count, offset.view(-1, rows_per_beam))  # [beams, K]
    row, block = first + best_blocks // blocked.size(1), best_blocks % blocked.size(1)
    inside = blocked[row, block].float()  # [beams, K, depth]
    index = (inside + offset[row].unsqueeze(2)).flatten(1).topk(count).indices  # [beams, K]
    which = index // depth  # of the K blocks
    column = (block.gather(1, which) * depth + index % depth).clamp_(max=vocab - 1)  # padding is no column
    return TopK(inside.flatten(1).gather(1, index), row.gather(1, which), column)


def _best_blocks(blocked: Tensor, count: int, offset: Tensor) -> Tensor:
    """Indices [beams, count], in a beam's rows · blocks, of the blocks with the largest maximum plus offset.

    Positive floats are in the order of their bits as integers, whose maximum takes half the time. The integer order of
    negative floats is reversed, so that the maximum of a block without a positive value comes out too small. That can
    change the result only if such a block could be among the best, which is checked.

    Args:
        blocked: [beams·rows_per_beam, blocks, depth].
        count: K.
        offset: [beams, rows_per_beam].
    """

    def best(maxima: Tensor) -> tuple[Tensor, Tensor]:  # maxima [beams·rows_per_beam, blocks]
        ranked = maxima.view(*offset.shape, -1) + offset.unsqueeze(2)  # [beams, rows_per_beam, blocks]
        return ranked.flatten(1).topk(count)

    integers = SAME_ORDER.get(blocked.dtype)
    if integers is not None:
        value, index = best(blocked.view(integers).amax(2).view(blocked.dtype).float())
        # A block without a positive value has at most its row's offset. If the worst of the best blocks of each beam
        # reaches the largest offset of the beam, no such block was left out wrongly.
        if bool((value[:, -1] >= offset.amax(1)).all()):
            return index
    return best(blocked.amax(2).float())[1]


@cache
def num_blocks(vocab: int, count: int) -> int:
    """Number of blocks for the `count` largest columns of a row: of those in BLOCKS the one that leaves fewest over."""
    times = 1 + count // COLUMNS_PER_BLOCKS
    return min(range(BLOCKS.start * times, BLOCKS.stop * times), key=lambda blocks: vocab % blocks)


def append_columns(top: TopK, logits: Tensor, required: Tensor) -> TopK:
    """`top` of each row of `logits`, followed by the columns `required` [rows, E].

    The value is -inf where the column is in `top` already, is repeated, or is negative (padding).
    """
    column = torch.cat([top.column, required.clamp(min=0)], dim=1)  # [rows, K + E]
    known = torch.cat([top.column, required], dim=1)
    is_repeated = (required.unsqueeze(2) == known.unsqueeze(1)).tril(top.column.size(1) - 1).any(2)  # [rows, E]
    value = logits.gather(1, column[:, top.column.size(1) :]).float()
    value = value.masked_fill(is_repeated | (required < 0), float("-inf"))  # [rows, E]
    return TopK(torch.cat([top.value, value], dim=1), top.row[:, :1].expand_as(column), column)


def log_normaliser(logits: Tensor) -> Tensor:
    """log sum exp of each row of `logits` [rows, V], in float32 [rows].

    On a CPU the exponentials are summed as they are, without the maximum subtracted first, where `exp` is fast. That
    is as exact as long as the sum is well inside the range of float32; the other rows are computed again by a softmax.
    """
    if logits.is_cuda:
        return logits.float().logsumexp(-1)
    normaliser = log_sum_exp if exp_is_fast() else log_sum_by_softmax
    chunks = [logits[row : row + EXP_CHUNK_ROWS].float() for row in range(0, logits.size(0), EXP_CHUNK_ROWS)]
    return torch.cat([normaliser(chunk) for chunk in chunks]) if chunks else logits.new_zeros(0, dtype=torch.float32)


def log_sum_exp(x: Tensor) -> Tensor:
    """log sum exp of rows [rows, V] of float32, [rows]; equal for a row in any batch."""
    total = x.exp().sum(1)  # [rows]
    is_safe = (total > MIN_EXP_SUM) & (total < float("inf"))  # no term has overflowed, and no large one underflowed
    if bool(is_safe.all()):
        return total.log_()
    return torch.where(is_safe, total.log(), log_sum_by_softmax(x))


def log_sum_by_softmax(x: Tensor) -> Tensor:
    """The same of rows of any range: with p = softmax(x) it is max x - log max p, and max p is at least 1/V."""
    return x.amax(1) - x.softmax(1).amax(1).log()


@cache
def exp_is_fast() -> bool:
    """Return whether `exp` takes clearly less time than a softmax on this processor; measured once per process.

    torch computes `exp` with MKL, which is several times as fast on processors of its own maker (see
    tools/benchmarks/NOTES.md).
    """
    x = torch.zeros(EXP_CHUNK_ROWS, EXP_TRIAL_COLUMNS)
    shortest = dict.fromkeys((log_sum_exp, log_sum_by_softmax), float("inf"))
    for _ in range(EXP_TRIALS):  # in turn, so that noise meets both
        for compute in shortest:
            start = time.perf_counter()
            compute(x)
            shortest[compute] = min(shortest[compute], time.perf_counter() - start)
    return shortest[log_sum_exp] * MIN_EXP_SPEEDUP < shortest[log_sum_by_softmax]
