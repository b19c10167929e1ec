"""Batching by length: sentence lengths to micro-batches within a budget of padded tokens, and those to updates."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.order.hash_rng import hash_array, hash_seed, shuffle, uniform01

# Noise on the sort key, in tokens: larger values mix more sentences but cost padding. Share of real tokens on Multi30k
# (batches of 4,096 tokens, vocabulary of 8,000): 0.969 at 1 (which mixes only equal lengths), 0.959 at 2, 0.947 at 4.
_LENGTH_NOISE = 2.0

UpdateRows = list[NDArray[np.int64]]  # the micro-batches of one update, each the row numbers of its sentences


def plan_updates(
    src: NDArray[np.int64], tgt: NDArray[np.int64], *, batch_tokens: int, micro_batches: int, key: int
) -> list[UpdateRows]:
    """Arrange N sentence pairs into updates; each pair occurs exactly once.

    Args:
        src: [N] source lengths in tokens, eos included.
        tgt: [N] target lengths in tokens, eos included.
        batch_tokens: upper limit of sentences × longest side of a micro-batch.
        micro_batches: micro-batches of an update. Some updates have one fewer if the number of micro-batches is not
            divisible.
        key: determines the order of the updates, and the grouping of sentences of similar length.

    Raises:
        ValueError: a sentence is longer than the budget.
    """
    max_length = int(max(src.max(initial=0), tgt.max(initial=0)))
    if max_length > batch_tokens:
        raise ValueError(f"a sentence of {max_length} tokens exceeds the budget of {batch_tokens}")
    order = sort_by_length(src, tgt, hash_seed(key, 0))
    # The first micro-batch gets a random share of its sentences, so that the boundaries differ from epoch to epoch.
    bounds = split_by_token_budget(
        np.maximum(src, tgt)[order], batch_tokens, first_share=1 - uniform01(hash_seed(key, 1))
    )
    batches = [order[start:end] for start, end in bounds]
    batches = [batches[number] for number in shuffle(len(batches), hash_seed(key, 2))]
    num_updates = -(-len(batches) // micro_batches)
    update_bounds = [number * len(batches) // num_updates for number in range(num_updates + 1)]
    return [batches[start:end] for start, end in pairwise(update_bounds)]


def sort_by_length(src: NDArray[np.int64], tgt: NDArray[np.int64], key: int) -> NDArray[np.int64]:
    """[N] the row numbers, longest first by the longer side, so that neighbours also agree on the other side.

    Among rows with the same longer side the difference of the sides alternately rises and falls, so that it does not
    jump where the longer side changes. The key adds a little noise to the difference and so varies the neighbours.
    """
    longer = np.maximum(src, tgt)
    difference = np.where(longer % 2 == 0, src - tgt, tgt - src)
    noisy = difference + _LENGTH_NOISE * uniform01(hash_array(key, np.arange(len(src))))
    return np.lexsort((noisy, -longer))


def split_by_token_budget(
    longer: NDArray[np.int64], batch_tokens: int, *, first_share: float = 1.0
) -> list[tuple[int, int]]:
    """Start and end of each micro-batch over rows sorted by decreasing length.

    Each micro-batch has the largest number of rows within the budget, and at least one.

    Args:
        longer: [N] length of the longer side in tokens, eos included.
        first_share: in (0, 1], the share of its rows that the first micro-batch gets; shifts all boundaries.
    """
    bounds: list[tuple[int, int]] = []
    start = 0
    while start < len(longer):
        count = batch_tokens // int(longer[start])
        if start == 0:
            count = math.ceil(count * first_share)
        end = min(start + max(1, count), len(longer))
        bounds.append((start, end))
        start = end
    return bounds


def padded_tokens(src: NDArray[Any], tgt: NDArray[Any]) -> int:
    """Tokens including padding of a micro-batch of pairs with these lengths [B], eos included: B·S + B·T."""
    return len(src) * int(src.max(initial=0) + tgt.max(initial=0))
