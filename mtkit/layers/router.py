"""Who sends a token to which expert, and what keeps the experts evenly busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from mtkit.layers.autocast import exactly
from mtkit.layers.linear import linear


class Choice(NamedTuple):
    """The k experts of each of N tokens, best first, and how much of each expert's result is taken."""

    experts: Tensor  # [N, k] int64
    gates: Tensor  # [N, k] float32


def switch(prob: Tensor) -> Choice:
    """The likeliest expert, its result times its probability. Fedus et al. 2022, eq. 2; prob [N, E]."""
    gates, experts = prob.topk(1)
    return Choice(experts, gates)


def top2(prob: Tensor) -> Choice:
    """The two likeliest, their probabilities made to sum to one. Lepikhin et al. 2021, sec. 2.2; prob [N, E]."""
    gates, experts = prob.topk(2)
    return Choice(experts, gates / gates.sum(-1, keepdim=True))


Routing = Literal["switch", "top2"]
ROUTINGS: dict[str, Callable[[Tensor], Choice]] = {"switch": switch, "top2": top2}


class Router(nn.Module):
    """Logits of the experts for each token, in float32 (Fedus et al. 2022, sec. 2.4, "selective precision").

    In training, where autocast is switched off for it; a model translating with bf16 weights has them here too.

    Args:
        d_model: width of a token.
        num_experts: E.
        jitter: in training the input is multiplied by a random number in [1 - jitter, 1 + jitter], element by element.
    """

    def __init__(self, d_model: int, num_experts: int, jitter: float) -> None:
        super().__init__()
        self.logits = linear(d_model, num_experts, bias=False)
        self.jitter = jitter

    def forward(self, x: Tensor) -> Tensor:
        """x [N, D] -> [N, E]."""
        with exactly(x):
            full = x.to(torch.promote_types(x.dtype, torch.float32))
            if self.training and self.jitter:
                full = full * torch.empty_like(full).uniform_(1 - self.jitter, 1 + self.jitter)
            dtype = self.logits.weight.dtype if isinstance(self.logits, nn.Linear) else full.dtype
            return self.logits(full.to(dtype)).to(full.dtype)  # type: ignore[no-any-return]


def balance_loss(prob: Tensor, first: Tensor) -> Tensor:
    """E · sum_i f_i P_i: 1 when tokens and probabilities are spread evenly. Fedus et al. 2022, eq. 4 without alpha.

    Args:
        prob: [N, E].
        first: [N] the first choice of each token, whether or not its expert had room.
    """
    return prob.size(-1) * (load(first, prob.size(-1)).to(prob.dtype) * prob.mean(0)).sum()


def router_z_loss(logits: Tensor) -> Tensor:
    """Mean squared log-sum-exp of logits [N, E], which keeps them small. Zoph et al. 2022, eq. 5 (arXiv 2202.08906)."""
    return torch.logsumexp(logits, -1).square().mean()


def load(first: Tensor, num_experts: int) -> Tensor:
    """The share of tokens [E] that each expert is the first choice of; first [N]."""
    return torch.bincount(first, minlength=num_experts).double() / max(first.numel(), 1)


def utilisation(share: Tensor) -> Tensor:
    """exp(entropy) / E of shares [E]: 1 when all experts are equally busy, 1/E when one does everything."""
    entropy: Tensor = torch.special.entr(share).sum()
    return entropy.exp() / share.numel()
