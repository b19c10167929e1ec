"""What the decoder reads in place of the truth: a piece chosen from its own distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

Choice = Callable[[Tensor], Tensor]  # logits [N, V] -> ids [N]


ChoiceName = Literal["argmax", "sample", "gumbel"]


Temperature = Annotated[float, Field(gt=0)]


def choose_best(logits: Tensor) -> Tensor:
    """The likeliest piece."""
    return logits.float().argmax(-1)  # bf16 has a slow argmax


def choose_sample(logits: Tensor) -> Tensor:
    """A piece drawn from the model's distribution."""
    return torch.multinomial(logits.float().softmax(-1), 1).squeeze(1)


def choose_gumbel(logits: Tensor) -> Tensor:
    """argmax of logits + Gumbel noise: a draw from the same distribution without computing it (Maddison et al. 2014).

    https://arxiv.org/abs/1411.0030, sec. 2.
    """
    exponential = torch.empty_like(logits, dtype=torch.float32).exponential_()
    return (logits.float() - exponential.log()).argmax(-1)  # -log of an exponential variate is a Gumbel variate


CHOICES: dict[ChoiceName, Choice] = {"argmax": choose_best, "sample": choose_sample, "gumbel": choose_gumbel}


def make_choice(name: ChoiceName, temperature: float) -> Choice:
    """The choice of that name from softmax(logits / temperature); argmax does not depend on the temperature."""
    choose = CHOICES[name]
    return choose if temperature == 1.0 else lambda logits: choose(logits / temperature)
