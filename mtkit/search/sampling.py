"""Sampling from the model's distribution, optionally truncated; independent of the batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.search.single_path import SampleKey

_ODD = (-7046029254386353131, -4658895280553007687, -7723592293110705685)  # splitmix64's constants as signed integers


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Sample tokens from softmax(logits / temperature), truncated by all of the options and renormalised.

    The random number of each choice is a function of (seed, sentence, path, step) alone, so that it does not depend on
    batches, their order or the number of workers.

    Attributes:
        temperature: divides the logits.
        top_k: number of the most probable tokens that are kept (Fan et al. 2018); 0: all.
        top_p: the smallest set of tokens with this mass is kept (Holtzman et al. 2020); 1: all.
        epsilon: tokens with at least this probability are kept (Hewitt et al. 2022); 0: all.
        seed: of the random numbers.
    """

    temperature: float
    top_k: int
    top_p: float
    epsilon: float
    seed: int

    def __call__(self, logits: Tensor, key: SampleKey) -> tuple[Tensor, Tensor]:
        """See TokenChooser; inverse transform sampling."""
        prob, column = self.distribution(logits)
        cumulative = prob.cumsum(1)  # [rows, V]
        threshold = uniform(self.seed, key).unsqueeze(1) * cumulative[:, -1:]  # [rows, 1]
        index = torch.searchsorted(cumulative, threshold, right=True).clamp(max=prob.size(1) - 1)
        last = (prob > 0).sum(1, keepdim=True) - 1  # rounding can lead past the last token that is allowed
        chosen = column.gather(1, torch.minimum(index, last.clamp(min=0)))  # [rows, 1]; NaN comes first
        return chosen.squeeze(1), logits.gather(1, chosen).squeeze(1)

    def distribution(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities [rows, V] after truncation, not renormalised, most probable first, and their columns."""
        scaled, column = (logits.double() / self.temperature).sort(dim=1, descending=True, stable=True)
        prob = scaled.softmax(1)  # [rows, V]
        mass_before = prob.cumsum(1) - prob  # mass of all tokens that are more probable
        keep = mass_before < self.top_p
        keep &= prob >= self.epsilon
        keep[:, 0] = True
        if self.top_k:
            keep[:, self.top_k :] = False
        return prob * keep, column


def uniform(seed: int, key: SampleKey) -> Tensor:
    """A number in [0, 1) for each row, [rows] float64: splitmix64 (Steele et al. 2014) of seed and key."""
    state = torch.full_like(key.sentence_id, seed)
    for part in (key.sentence_id, key.path, torch.full_like(key.sentence_id, key.step)):
        state = _mix(state + part * _ODD[0] + _ODD[0])
    return (state >> 11).bitwise_and((1 << 53) - 1).double() / (1 << 53)


def _mix(x: Tensor) -> Tensor:
    """splitmix64's finaliser, in signed arithmetic."""
    for shift, factor in ((30, _ODD[1]), (27, _ODD[2])):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor  # >> of a signed number fills with its sign
    return x ^ ((x >> 31) & ((1 << 33) - 1))
