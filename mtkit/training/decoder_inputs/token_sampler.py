"""Token samplers: the token that the decoder reads instead of the true one, chosen from its own distribution."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mtkit.training.key_types import SamplerName

TokenSampler = Callable[[Tensor], Tensor]  # logits [N, V] -> ids [N]


def sample_argmax(logits: Tensor) -> Tensor:
    """The most probable token."""
    return logits.float().argmax(-1)  # argmax is slow in bf16


def sample_multinomial(logits: Tensor) -> Tensor:
    """A token sampled from the model's distribution."""
    return torch.multinomial(logits.float().softmax(-1), 1).squeeze(1)


def sample_gumbel(logits: Tensor) -> Tensor:
    """Gumbel-max sampling: argmax of logits + Gumbel noise, a sample from the softmax without computing it.

    Maddison et al. 2014, sec. 2, https://arxiv.org/abs/1411.0030.
    """
    exponential = torch.empty_like(logits, dtype=torch.float32).exponential_()
    return (logits.float() - exponential.log()).argmax(-1)  # -log of an exponential variate is a Gumbel variate


SAMPLERS: dict[SamplerName, TokenSampler] = {
    "argmax": sample_argmax,
    "multinomial": sample_multinomial,
    "gumbel": sample_gumbel,
}


def make_sampler(name: SamplerName, temperature: float) -> TokenSampler:
    """The sampler of that name for softmax(logits / temperature); argmax does not depend on the temperature."""
    sample = SAMPLERS[name]
    return sample if temperature == 1.0 else lambda logits: sample(logits / temperature)
