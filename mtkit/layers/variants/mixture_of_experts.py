"""Mixture of experts (MoE): several feed-forward layers; a router sends each token to one or two of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from mtkit.layers.dropout import StructuralDropout
from mtkit.layers.layer_call import AuxLoss, current_aux_losses
from mtkit.layers.matmul import no_autocast
from mtkit.layers.projections import linear

if TYPE_CHECKING:
    from mtkit.layers.variants.config import MixtureOfExpertsConfig


class Routing(NamedTuple):
    """The k experts of each of N tokens, best first, and the weight of each expert's output."""

    experts: Tensor  # [N, k] int64
    gates: Tensor  # [N, k] float32


def switch(prob: Tensor) -> Routing:
    """Route to the likeliest expert; its probability is the gate. Fedus et al. 2022, eq. 2; prob [N, E]."""
    gates, experts = prob.topk(1)
    return Routing(experts, gates)


def top2(prob: Tensor) -> Routing:
    """Route to the two likeliest experts; gates normalised to sum 1. Lepikhin et al. 2021, sec. 2.2; prob [N, E]."""
    gates, experts = prob.topk(2)
    return Routing(experts, gates / gates.sum(-1, keepdim=True))


ROUTINGS: dict[str, Callable[[Tensor], Routing]] = {"switch": switch, "top2": top2}


class Router(nn.Module):
    """Logits of the experts for each token, in float32 (Fedus et al. 2022, sec. 2.4, "selective precision").

    In training autocast is off inside, and each element of the input is multiplied by a random number in [1 - jitter,
    1 + jitter]. A model that translates with bf16 weights computes the logits in bf16.
    """

    def __init__(self, d_model: int, num_experts: int, jitter: float) -> None:
        super().__init__()
        self.logits = linear(d_model, num_experts, bias=False)
        self.jitter = jitter

    def forward(self, x: Tensor) -> Tensor:
        """x [N, D] -> [N, E]."""
        with no_autocast(x):
            full = x.to(torch.promote_types(x.dtype, torch.float32))
            if self.training and self.jitter:
                full = full * torch.empty_like(full).uniform_(1 - self.jitter, 1 + self.jitter)
            dtype = self.logits.weight.dtype if isinstance(self.logits, nn.Linear) else full.dtype
            return self.logits(full.to(dtype)).to(full.dtype)  # type: ignore[no-any-return]


def balance_loss(prob: Tensor, first: Tensor) -> Tensor:
    """E · sum_i f_i P_i: 1 when tokens and probabilities are spread evenly. Fedus et al. 2022, eq. 4 without alpha.

    Args:
        prob: [N, E].
        first: [N] the first choice of each token, before the capacity limit.
    """
    return prob.size(-1) * (expert_load(first, prob.size(-1)).to(prob.dtype) * prob.mean(0)).sum()


def router_z_loss(logits: Tensor) -> Tensor:
    """Mean squared log-sum-exp of logits [N, E], which keeps them small. Zoph et al. 2022, eq. 5 (arXiv:2202.08906)."""
    return torch.logsumexp(logits, -1).square().mean()


def expert_load(first: Tensor, num_experts: int) -> Tensor:
    """Share of tokens [E] whose first choice is each expert; first [N]."""
    return torch.bincount(first, minlength=num_experts).double() / max(first.numel(), 1)


def utilisation(load: Tensor) -> Tensor:
    """exp(entropy) / E of shares [E]: 1 for an even load, 1/E if one expert receives all tokens."""
    entropy: Tensor = torch.special.entr(load).sum()
    return entropy.exp() / load.numel()


def sort_by_expert(experts: Tensor, num_experts: int, capacity: int | None) -> tuple[Tensor, Tensor]:
    """Sort assignments [N, k] by expert, and drop those beyond the capacity of their expert.

    First choices take precedence over second ones, then tokens in their order (Lepikhin et al. 2021, alg. 1).

    Returns:
        Indices [M] into the flattened [k, N] assignments, and the number of assignments of each expert [E]; their sum
        is M.
    """
    flat = experts.t().flatten()  # [kN]
    order = flat.argsort(stable=True)
    counts = torch.bincount(flat, minlength=num_experts)  # [E]
    if capacity is None:
        return order, counts
    starts = counts.cumsum(0) - counts  # [E]
    rank = torch.arange(flat.numel(), device=flat.device) - starts.repeat_interleave(counts)  # [kN]
    return order[rank < capacity], counts.clamp(max=capacity)


class MixtureOfExperts(nn.Module, StructuralDropout):
    """y = sum over the chosen experts e of gate_e · expert_e(x).

    Fedus et al. 2022 (https://arxiv.org/abs/2101.03961) and Lepikhin et al. 2021 (https://arxiv.org/abs/2006.16668).
    Tokens are sorted by expert and each expert computes its own tokens only: the cost is that of k dense layers. In
    training an expert accepts at most capacity_factor times an even share of the tokens; for the others its output is
    zero, and they pass on the residual stream. In evaluation nothing is dropped, so that a translation does not depend
    on the other sentences of its batch. Padding is not routed and not counted. The losses are recorded as auxiliary
    losses, see layer_call.py.
    """

    def __init__(self, config: MixtureOfExpertsConfig, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.experts = nn.ModuleList(config.expert.build(d_model, d_ff, dropout) for _ in range(config.num_experts))
        self.router = Router(d_model, config.num_experts, config.jitter)
        self.choose = ROUTINGS[config.routing]
        self.config = config

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """[..., D] -> [..., D], zeros at padding (`real` [...] False); None: no padding."""
        tokens = x.flatten(0, -2)  # [N, D]
        if real is None:
            return self._dispatch(tokens).view_as(x)
        index = real.flatten().nonzero().squeeze(1)  # [N]
        mixed = self._dispatch(tokens.index_select(0, index))  # [N, D]
        return mixed.new_zeros(tokens.shape).index_copy(0, index, mixed).view_as(x)

    def _dispatch(self, x: Tensor) -> Tensor:
        """Send real tokens x [N, D] to their experts and sum the gated outputs -> [N, D]."""
        logits = self.router(x)  # [N, E]
        routing = self.choose(logits.softmax(-1))
        capacity = None
        if self.training and self.config.capacity_factor is not None:
            capacity = math.ceil(self.config.capacity_factor * routing.experts.numel() / len(self.experts))
        order, counts = sort_by_expert(routing.experts, len(self.experts), capacity)
        self._record_aux_losses(logits, routing, counts)
        token = order % max(x.size(0), 1)  # [M]; assignments are choice-major, so this is the token's index
        inputs = torch.split(x.index_select(0, token), counts.tolist())
        # experts without tokens are called too, so that their gradient is zero instead of None
        out = torch.cat([expert(each) for expert, each in zip(self.experts, inputs, strict=True)])  # [M, D]
        gates = routing.gates.t().flatten().index_select(0, order).unsqueeze(1)  # [M, 1]
        return out.new_zeros(x.shape).index_add(0, token, out * gates.to(out.dtype))

    def _record_aux_losses(self, logits: Tensor, routing: Routing, counts: Tensor) -> None:
        aux_losses = current_aux_losses(self)
        if aux_losses is None or logits.size(0) == 0:
            return
        first = routing.experts[:, 0]
        balance, z = balance_loss(logits.softmax(-1), first), router_z_loss(logits)
        load = expert_load(first, len(self.experts))
        metrics = {
            "balance_loss": balance.detach().double(),
            "router_z_loss": z.detach().double(),
            "expert_utilisation": utilisation(load),
            "expert_peak": load.max() * len(self.experts),
            "dropped": 1 - counts.sum().double() / routing.experts.numel(),
        }
        loss = self.config.balance_weight * balance + self.config.z_weight * z
        aux_losses.by_layer[self].append(AuxLoss(first.numel(), loss, metrics))
