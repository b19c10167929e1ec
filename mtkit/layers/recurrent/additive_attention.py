"""Additive attention: the decoder's state and each annotation of the source meet in a small network.

Bahdanau, Cho & Bengio 2015, appendix A.1.2. https://arxiv.org/abs/1409.0473
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from mtkit.layers.projections import linear
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention, Scorer
from mtkit.layers.recurrent.deferred_weight_grad import loop_product


class AdditiveAttention(RecurrentAttention):
    """e_j = v · tanh(W s + U h_j).

    U has a bias, which the paper leaves out for brevity; without it this is the `concat` of Luong et al. 2015, eq. 8,
    whose one matrix is [W; U]. All begin as layers/linear.py has it (Bahdanau: v at zero, W and U from N(0, 0.001^2)).
    """

    def __init__(self, d_query: int, d_memory: int, d_attention: int, *, bias: bool = True) -> None:
        super().__init__()
        self.query = linear(d_query, d_attention, bias=False)  # W
        self.key = linear(d_memory, d_attention, bias=bias)  # U
        self.score = linear(d_attention, 1, bias=False)  # v

    def keys(self, values: Tensor) -> Tensor:
        """U h_j [B, S, A]."""
        return self.key(values)  # type: ignore[no-any-return]

    def scorer(self, memory: Annotations) -> Scorer:
        """See RecurrentAttention; gradients of what all steps share are computed once."""
        to_query, score = loop_product(self.query), self._loop_score(memory.keys)
        return lambda query: score(memory.by_sentence(to_query(query)))

    def _loop_score(self, keys: Tensor) -> Scorer:
        """Queries [B, W, A] -> scores [B, W, S]."""
        if type(self.score) is not nn.Linear or not torch.is_grad_enabled():
            return lambda query: self.score(torch.tanh(keys.unsqueeze(1) + query.unsqueeze(2))).squeeze(-1)
        uses = _ScoreUses()
        v = self.score.weight.squeeze(0).to(keys.dtype)  # [A]
        keys, v = _ShareKeys.apply(keys, v, uses)  # type: ignore[no-untyped-call]
        return lambda query: _Score.apply(query.to(keys.dtype), keys, v, uses)  # type: ignore[no-untyped-call]


class _ScoreUses:
    """Gradients of the keys and of v, added up over the steps of a loop."""

    def __init__(self) -> None:
        self.steps = 0
        self.seen: set[int] = set()
        self.keys: Tensor | None = None  # [B, S, A], not yet times v
        self.v: Tensor | None = None  # [A]

    def open(self) -> int:
        """The number of the next step."""
        self.steps += 1
        return self.steps - 1

    def add(self, step: int, keys: Tensor, v: Tensor) -> None:
        """Add one step's gradients; a step that comes again means that an earlier pass was never collected."""
        if step in self.seen:
            self.clear()
        self.seen.add(step)
        self.keys = keys if self.keys is None else self.keys.add_(keys)
        self.v = v if self.v is None else self.v.add_(v)

    def clear(self) -> None:
        """Forget everything."""
        self.seen.clear()
        self.keys = self.v = None


class _ShareKeys(torch.autograd.Function):
    """Hand out keys and v to a loop; their gradients come from `uses` when all steps are through."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, v: Tensor, uses: _ScoreUses) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.uses = uses
        ctx.save_for_backward(v)
        return keys.view_as(keys), v.view_as(v)

    @staticmethod
    def backward(ctx: Any, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        (v,) = ctx.saved_tensors
        grad_keys, grad_v = ctx.uses.keys, ctx.uses.v
        ctx.uses.clear()
        return None if grad_keys is None else grad_keys * v, grad_v, None


class _Score(torch.autograd.Function):
    """v · tanh(query + key) for every pair; the derivative of tanh is formed once and used three times."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, v: Tensor, uses: _ScoreUses) -> Tensor:
        ctx.uses, ctx.step = uses, uses.open()
        met = (keys.unsqueeze(1) + query.unsqueeze(2)).tanh_()  # [B, W, S, A]
        ctx.save_for_backward(met, v)
        return met @ v

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads  # [B, W, S]
        met, v = ctx.saved_tensors
        slope = torch.ops.aten.tanh_backward(grad.unsqueeze(-1).expand_as(met), met)  # [B, W, S, A], not yet times v
        grad_v = grad.reshape(1, -1) @ met.flatten(0, 2)  # [1, A]
        grad_query = slope.sum(2) * v  # [B, W, A]
        ctx.uses.add(ctx.step, slope.squeeze(1) if slope.size(1) == 1 else slope.sum(1), grad_v.squeeze(0))
        return grad_query, None, None, None


@dataclass(frozen=True, kw_only=True)
class AdditiveConfig:
    """A small network with a bias, as in Bahdanau et al. 2015 (see AdditiveAttention)."""

    kind: Literal["additive"] = "additive"

    def build(self, d_query: int, d_memory: int, d_attention: int) -> RecurrentAttention:
        """The attention of states [rows, d_query] to annotations [B, S, d_memory]."""
        return AdditiveAttention(d_query, d_memory, d_attention)


@dataclass(frozen=True, kw_only=True)
class ConcatConfig:
    """The same network without the bias, as in Luong et al. 2015 (see AdditiveAttention)."""

    kind: Literal["concat"] = "concat"

    def build(self, d_query: int, d_memory: int, d_attention: int) -> RecurrentAttention:
        """The attention of states [rows, d_query] to annotations [B, S, d_memory]."""
        return AdditiveAttention(d_query, d_memory, d_attention, bias=False)
