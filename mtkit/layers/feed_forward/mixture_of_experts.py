"""Mixture of experts: many feed-forward layers, of which each token goes through one or two."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.layers.feed_forward.aux_loss import Note, open_tape
from mtkit.layers.feed_forward.dense import DenseConfig
from mtkit.layers.feed_forward.gated import GatedConfig
from mtkit.layers.precision import exactly
from mtkit.layers.projections import linear

ExpertConfig = Annotated[DenseConfig | GatedConfig, Field(discriminator="kind")]


class Groups(NamedTuple):
    """Assignments of tokens to experts, sorted by expert."""

    order: Tensor  # [M] numbers in the flattened [k, N] assignments
    counts: Tensor  # [E] how many each expert has; their sum is M


def group(experts: Tensor, num_experts: int, capacity: int | None) -> Groups:
    """Sort assignments [N, k] by expert; of each, the first `capacity` stay.

    First choices come before second ones, and within these the tokens in their order (Lepikhin et al. 2021, alg. 1).
    """
    flat = experts.t().flatten()  # [kN]
    order = flat.argsort(stable=True)
    counts = torch.bincount(flat, minlength=num_experts)  # [E]
    if capacity is None:
        return Groups(order, counts)
    begins = counts.cumsum(0) - counts  # [E]
    rank = torch.arange(flat.numel(), device=flat.device) - begins.repeat_interleave(counts)  # [kN]
    return Groups(order[rank < capacity], counts.clamp(max=capacity))


@dataclass(frozen=True)
class Balance:
    """How a router is kept from sending everything to one expert."""

    capacity_factor: float | None  # None drops nothing
    balance_weight: float
    z_weight: float


class Experts(nn.Module):
    """y = sum over the chosen experts e of gate_e · expert_e(x).

    Fedus et al. 2022 (https://arxiv.org/abs/2101.03961) and Lepikhin et al. 2021 (https://arxiv.org/abs/2006.16668).
    Tokens are sorted by expert and each expert sees its own only, so the work is that of k dense layers. In training an
    expert takes at most capacity_factor times its even share, and what is over passes by on the residual stream;
    otherwise all is taken, so that a translation does not depend on its batch-mates. Padding is never sent to an expert
    and counts nowhere. The losses go to the tape, see tape.py.
    """

    def __init__(self, experts: Sequence[nn.Module], router: Router, routing: Routing, *, balance: Balance) -> None:
        super().__init__()
        self.experts = nn.ModuleList(experts)
        self.router = router
        self.choose = ROUTINGS[routing]
        self.balance = balance

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """[..., D] -> [..., D], zeros where `real` [...] says that there is no token; None: there is everywhere."""
        tokens = x.flatten(0, -2)  # [N, D]
        if real is None:
            return self._mix(tokens).view_as(x)
        places = real.flatten().nonzero().squeeze(1)  # [N]
        mixed = self._mix(tokens.index_select(0, places))  # [N, D]
        return mixed.new_zeros(tokens.shape).index_copy(0, places, mixed).view_as(x)

    def _mix(self, x: Tensor) -> Tensor:
        """x [N, D], real tokens only -> [N, D]."""
        logits = self.router(x)  # [N, E]
        choice = self.choose(logits.softmax(-1))
        groups = group(choice.experts, len(self.experts), self._capacity(choice))
        self._say(logits, choice, groups)
        token = groups.order % max(x.size(0), 1)  # [M]
        parts = torch.split(x.index_select(0, token), groups.counts.tolist())
        # an expert without tokens is called too, so that its gradient is zero and not missing
        out = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])  # [M, D]
        gates = choice.gates.t().flatten().index_select(0, groups.order).unsqueeze(1)  # [M, 1]
        return out.new_zeros(x.shape).index_add(0, token, out * gates.to(out.dtype))

    def _capacity(self, choice: Choice) -> int | None:
        if not self.training or self.balance.capacity_factor is None:
            return None
        return math.ceil(self.balance.capacity_factor * choice.experts.numel() / len(self.experts))

    def _say(self, logits: Tensor, choice: Choice, groups: Groups) -> None:
        tape = open_tape(self)
        if tape is None or logits.size(0) == 0:
            return
        first = choice.experts[:, 0]
        balance, z = balance_loss(logits.softmax(-1), first), router_z_loss(logits)
        share = load(first, len(self.experts))
        figures = {
            "balance_loss": balance.detach().double(),
            "router_z_loss": z.detach().double(),
            "expert_utilisation": utilisation(share),
            "expert_peak": share.max() * len(self.experts),
            "dropped": 1 - groups.counts.sum().double() / choice.experts.numel(),
        }
        loss = self.balance.balance_weight * balance + self.balance.z_weight * z
        tape.notes[self].append(Note(first.numel(), loss, figures))


@dataclass(frozen=True, kw_only=True)
class ExpertsConfig:
    """Mixture of experts in place of a feed-forward layer (see Experts)."""

    kind: Literal["experts"] = "experts"
    num_experts: Annotated[int, Field(ge=2, le=10_000)] = 8  # the Switch paper went to 2,048
    routing: Routing = "switch"  # switch: the best, times its probability; top2: the best two, summing to one
    expert: ExpertConfig = field(default_factory=DenseConfig)
    every: Annotated[int, Field(gt=0)] = 2  # a mixture in each second layer, as in the paper; the others have `expert`
    capacity_factor: Annotated[float, Field(gt=0)] | None = 1.25  # in training, of an even share; null drops nothing
    balance_weight: Annotated[float, Field(ge=0)] = 0.01  # alpha of the Switch paper
    z_weight: Annotated[float, Field(ge=0)] = 0.001  # of the ST-MoE paper
    jitter: Annotated[float, Field(ge=0, lt=1)] = 0.0  # noise of the router's input in training; the Switch paper: 0.01

    def build(self, d_model: int, d_ff: int, dropout: float, *, layer: int = 0) -> nn.Module:
        """The feed-forward part of the layer with that number, from 0; `dropout` applies to inner activations."""
        if (layer + 1) % self.every:
            return self.expert.build(d_model, d_ff, dropout)
        experts = [self.expert.build(d_model, d_ff, dropout) for _ in range(self.num_experts)]
        router = Router(d_model, self.num_experts, self.jitter)
        balance = Balance(self.capacity_factor, self.balance_weight, self.z_weight)
        return Experts(experts, router, self.routing, balance=balance)


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
