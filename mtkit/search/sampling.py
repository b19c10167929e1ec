"""Sampling from the model's distribution, optionally truncated; independent of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from mtkit.search.run import Search, SearchParts
from mtkit.search.single_path import SampleKey, SinglePathSearch

_ODD = (-7046029254386353131, -4658895280553007687, -7723592293110705685)  # splitmix64's constants as signed integers


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Sample tokens from softmax(logits / temperature), truncated by all of the options and renormalised.

    `beam_size`, `patience` and `coverage_penalty` have no effect. The random number of each choice is a function of
    (seed, sentence, path, step) alone, so that it does not depend on batches, their order or the number of workers.
    """

    kind: Literal["sampling"] = "sampling"
    temperature: Annotated[float, Field(ge=0.001)] = 1.0  # below 1 sharpens the distribution
    top_k: Annotated[int, Field(ge=0)] = 0  # only the k most probable tokens (Fan et al. 2018); 0: all
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0  # only the smallest set with this mass (Holtzman et al. 2020)
    epsilon: Annotated[float, Field(ge=0, lt=1)] = 0.0  # only tokens this probable (Hewitt et al. 2022); 0.02 suits MBR
    num_samples: Annotated[int, Field(gt=0)] = 1  # for each line; the n_best of them by score are returned
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1  # equal seeds give equal samples, whatever the batch

    num_hypotheses_key: ClassVar[str] = "method.num_samples"
    ignored_keys: ClassVar[frozenset[str]] = frozenset({"beam_size", "patience", "coverage_penalty"})

    def num_hypotheses(self, beam_size: int) -> int:
        """See SearchMethod."""
        return self.num_samples

    def check(self, beam_size: int) -> None:
        """See SearchMethod."""

    def build(self, parts: SearchParts) -> Search:
        """See SearchMethod."""
        return SinglePathSearch(parts, self, self.num_samples)

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
