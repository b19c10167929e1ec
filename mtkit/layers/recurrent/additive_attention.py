"""Additive attention: the score of state and annotation is a feed-forward network with one hidden layer.

Bahdanau, Cho & Bengio 2015, appendix A.1.2. https://arxiv.org/abs/1409.0473
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mtkit.layers.projections import Projection, linear
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention, ScoreFn
from mtkit.layers.recurrent.deferred_weight_grad import recurrent_linear

if TYPE_CHECKING:
    from mtkit.layers.recurrent.config import RecurrentAttentionConfigBase


class AdditiveAttention(RecurrentAttention):
    """e_j = v · tanh(W s + U h_j).

    U has a bias, which the paper omits for brevity. Without it this is the `concat` of Luong et al. 2015, eq. 8, whose
    one matrix is [W; U]. Weights are Xavier-uniform (Bahdanau: v zero, W and U from N(0, 0.001^2)).
    """

    def __init__(self, config: RecurrentAttentionConfigBase, d_query: int, d_memory: int, d_attention: int) -> None:
        super().__init__(config, d_query, d_memory, d_attention)
        self.query = linear(d_query, d_attention, bias=False)  # W
        self.key = linear(d_memory, d_attention, bias=config.has_bias)  # U
        self.score = linear(d_attention, 1, bias=False)  # v

    def project_keys(self, values: Tensor) -> Tensor:
        """U h_j [B, S, A]."""
        return self.key(values)  # type: ignore[no-any-return]

    def make_score_fn(self, memory: Annotations) -> ScoreFn:
        """See RecurrentAttention."""
        to_query, score = recurrent_linear(self.query), self._score_of_projected(memory.keys)
        return lambda query: score(memory.group_by_sentence(to_query(query)))

    def _score_of_projected(self, keys: Tensor) -> ScoreFn:
        """Return the function from projected queries [B, W, A] to scores [B, W, S] for the steps of one loop."""
        if type(self.score) is not Projection or not torch.is_grad_enabled():
            return lambda query: self.score(torch.tanh(keys.unsqueeze(1) + query.unsqueeze(2))).squeeze(-1)
        accumulator = _ScoreGradAccumulator()
        v = self.score.weight.squeeze(0).to(keys.dtype)  # [A]
        keys, v = _ShareKeys.apply(keys, v, accumulator)  # type: ignore[no-untyped-call]
        return lambda query: _ScoreStep.apply(query.to(keys.dtype), keys, v, accumulator)  # type: ignore[no-untyped-call]


class _ScoreGradAccumulator:
    """Gradients of the keys and of v, added up over the steps of a loop; see deferred_weight_grad.py for the scheme."""

    def __init__(self) -> None:
        self.steps = 0
        self.added: set[int] = set()
        self.keys: Tensor | None = None  # [B, S, A], not yet multiplied by v
        self.v: Tensor | None = None  # [A]

    def next_step(self) -> int:
        """Return the number of the next step of the forward pass, from 0."""
        self.steps += 1
        return self.steps - 1

    def add(self, step: int, keys: Tensor, v: Tensor) -> None:
        """Add the gradients of one step.

        The same step twice means that an earlier backward pass did not need these gradients and left them here.
        """
        if step in self.added:
            self.clear()
        self.added.add(step)
        self.keys = keys if self.keys is None else self.keys.add_(keys)
        self.v = v if self.v is None else self.v.add_(v)

    def clear(self) -> None:
        """Discard all gradients."""
        self.added.clear()
        self.keys = self.v = None


class _ShareKeys(torch.autograd.Function):
    """Identity of keys and v; its backward runs after that of all steps and returns the accumulated gradients."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, v: Tensor, accumulator: _ScoreGradAccumulator) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.accumulator = accumulator
        ctx.save_for_backward(v)
        return keys.view_as(keys), v.view_as(v)

    @staticmethod
    def backward(ctx: Any, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        (v,) = ctx.saved_tensors
        grad_keys, grad_v = ctx.accumulator.keys, ctx.accumulator.v
        ctx.accumulator.clear()
        return None if grad_keys is None else grad_keys * v, grad_v, None


class _ScoreStep(torch.autograd.Function):
    """v · tanh(query + key) of one step for all pairs; the derivative of tanh is computed once and used three times."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, v: Tensor, accumulator: _ScoreGradAccumulator) -> Tensor:
        ctx.accumulator, ctx.step = accumulator, accumulator.next_step()
        hidden = (keys.unsqueeze(1) + query.unsqueeze(2)).tanh_()  # [B, W, S, A]
        ctx.save_for_backward(hidden, v)
        return hidden @ v

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads  # [B, W, S]
        hidden, v = ctx.saved_tensors
        # [B, W, S, A], gradient before tanh except for the factor v, which is applied to the sums below
        pre_tanh = torch.ops.aten.tanh_backward(grad.unsqueeze(-1).expand_as(hidden), hidden)
        grad_v = grad.reshape(1, -1) @ hidden.flatten(0, 2)  # [1, A]
        grad_query = pre_tanh.sum(2) * v  # [B, W, A]
        grad_keys = pre_tanh.squeeze(1) if pre_tanh.size(1) == 1 else pre_tanh.sum(1)  # [B, S, A]
        ctx.accumulator.add(ctx.step, grad_keys, grad_v.squeeze(0))
        return grad_query, None, None, None
