"""Drawing pieces from the model's distribution, cut and flattened as asked; each line's draws are its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from mtkit.search.single_path import Place

_ODD = (-7046029254386353131, -4658895280553007687, -7723592293110705685)  # the constants of splitmix64, as signed


@dataclass(frozen=True)
class Draw:
    """Draws a piece from softmax(logits / temperature), restricted to what all of these keep, renormalised.

    The uniform number that decides is a function of (seed, line, path, step) alone, so that neither batch nor order
    nor workers matter.

    Attributes:
        temperature: below 1 sharpens.
        top_k: only the k most probable pieces (Fan et al. 2018); 0: all.
        top_p: the fewest most probable pieces that have this mass together (Holtzman et al. 2020); 1: all.
        epsilon: only pieces at least this probable (Hewitt et al. 2022, epsilon sampling); 0: all.
        seed: of the whole translation.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    epsilon: float = 0.0
    seed: int = 1

    def __call__(self, logits: Tensor, place: Place) -> Tensor:
        """See Pick."""
        prob, column = self.distribution(logits)
        reached = prob.cumsum(1)  # [rows, C]
        aim = uniform(self.seed, place).unsqueeze(1) * reached[:, -1:]  # [rows, 1]
        nth = torch.searchsorted(reached, aim, right=True).clamp(max=prob.size(1) - 1)
        last = (prob > 0).sum(1, keepdim=True) - 1  # rounding may lead past the last one that is allowed
        return column.gather(1, torch.minimum(nth, last.clamp(min=0))).squeeze(1)

    def distribution(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities [rows, C], not renormalised, most probable first, and their columns."""
        scaled, column = (logits.double() / self.temperature).sort(dim=1, descending=True, stable=True)
        prob = scaled.softmax(1)  # [rows, C]
        before = prob.cumsum(1) - prob  # mass of what is more probable
        keep = before < self.top_p
        keep &= prob >= self.epsilon
        keep[:, 0] = True
        if self.top_k:
            keep[:, self.top_k :] = False
        return prob * keep, column


def uniform(seed: int, place: Place) -> Tensor:
    """A number in [0, 1) for each row [rows], float64: splitmix64 (Steele et al. 2014) of the key."""
    state = torch.full_like(place.line, seed)
    for part in (place.line, place.path, torch.full_like(place.line, place.step)):
        state = _mix(state + part * _ODD[0] + _ODD[0])
    return (state >> 11).bitwise_and((1 << 53) - 1).double() / (1 << 53)


def _mix(x: Tensor) -> Tensor:
    for shift, factor in ((30, _ODD[1]), (27, _ODD[2])):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor  # >> of a signed number fills with its sign
    return x ^ ((x >> 31) & ((1 << 33) - 1))


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """Draw pieces in place of searching (see Draw); beam_size and patience do not matter then."""

    kind: Literal["sampling"] = "sampling"
    temperature: Annotated[float, Field(gt=0)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0  # 0: all
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    epsilon: Annotated[float, Field(ge=0, lt=1)] = 0.0  # 0.02 is a good value for minimum Bayes risk
    samples: Annotated[int, Field(gt=0)] = 1  # drawn for each line; the n_best of them by score are given
    seed: Annotated[int, Field(ge=0)] = 1

    def build(self) -> Draw:
        """The pick."""
        return Draw(self.temperature, self.top_k, self.top_p, self.epsilon, self.seed)
