"""Attention of recurrent decoders over the source: one head, with exchangeable scores and weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mtkit.layers import native_kernels
from mtkit.layers.cache import BatchedState
from mtkit.layers.matmul import compute_dtype
from mtkit.layers.projections import Projection, linear
from mtkit.layers.recurrent.deferred_weight_grad import recurrent_bmm, recurrent_linear

if TYPE_CHECKING:
    from mtkit.layers.recurrent.config import GeneralConfig, LocalConfig, RecurrentAttentionConfigBase


ScoreFn = Callable[[Tensor], Tensor]  # queries [rows, D] -> scores [B, W, S]
WeightFn = Callable[[Tensor, Tensor], Tensor]  # scores [B, W, S] and their queries [rows, D] -> weights [B, W, S]
AttendFn = Callable[[Tensor], tuple[Tensor, Tensor]]  # query [rows, D] -> context [rows, M], weights [rows, S]


@dataclass(frozen=True)
class Annotations(BatchedState):
    """Encoder outputs ("annotations") that a recurrent decoder attends to, one row per sentence; M is their width."""

    values: Tensor  # [B, S, M]
    keys: Tensor  # [B, S, A], the part of the score that depends on the annotations alone
    real: Tensor  # [B, S] bool

    def group_by_sentence(self, query: Tensor) -> Tensor:
        """Reshape queries [B·W, A] to [B, W, A]."""
        sentences = self.keys.size(0)
        return query.view(sentences, query.size(0) // max(1, sentences), query.size(1))


class RecurrentAttention(nn.Module, ABC):
    """context = sum_j weights_j h_j with weights = softmax(score(query, keys)). Subclasses define the score."""

    def __init__(self, config: RecurrentAttentionConfigBase, d_query: int, d_memory: int, d_attention: int) -> None:
        super().__init__()

    @abstractmethod
    def project_keys(self, values: Tensor) -> Tensor:
        """Compute the part of the score that depends on the annotations alone: [B, S, M] -> [B, S, A]."""

    @abstractmethod
    def make_score_fn(self, memory: Annotations) -> ScoreFn:
        """Return the score function for the steps of one loop."""

    def make_weight_fn(self, memory: Annotations) -> WeightFn:
        """Return the function from scores to weights for the steps of one loop: a softmax over the real tokens."""
        real = None if memory.real.all() else memory.real.unsqueeze(1)  # [B, 1, S]
        return lambda scores, query: softmax_over_visible(scores, real)

    def project_memory(self, values: Tensor, real: Tensor) -> Annotations:
        """Build the memory from annotations [B, S, M] and their padding mask's complement `real` [B, S]."""
        return Annotations(values.to(compute_dtype(values)), self.project_keys(values), real)

    def make_attend_fn(self, memory: Annotations) -> AttendFn:
        """Return attention over one memory for the steps of one loop.

        The gradients of everything that the steps share (weights, keys, values) are computed once, after the loop. The
        function takes queries [B·W, D], the W hypotheses of a sentence next to each other, and returns contexts
        [B·W, M] and weights [B·W, S]. A source without real tokens gives zeros.
        """
        score, weigh = self.make_score_fn(memory), self.make_weight_fn(memory)
        weighted_sum = recurrent_bmm(memory.values)

        def attend(query: Tensor) -> tuple[Tensor, Tensor]:
            weights = weigh(score(query).to(query.dtype), query)  # [B, W, S]
            return weighted_sum(weights).flatten(0, 1), weights.flatten(0, 1)

        return attend


def softmax_over_visible(scores: Tensor, visible: Tensor | None) -> Tensor:
    """Softmax of scores [B, W, S] over the visible [B, 1 or W, S] keys; zeros if none is visible; None: all are."""
    if visible is None:
        return scores.softmax(-1)
    return scores.masked_fill(~visible, torch.finfo(scores.dtype).min).softmax(-1) * visible


class DotAttention(RecurrentAttention):
    """e_j = s · h_j, without scaling; state and annotations have equal widths. Luong et al. 2015, eq. 8, "dot"."""

    def project_keys(self, values: Tensor) -> Tensor:
        """The annotations themselves."""
        return values

    def make_score_fn(self, memory: Annotations) -> ScoreFn:
        """See RecurrentAttention."""
        product = recurrent_bmm(memory.keys.mT)
        return lambda query: product(memory.group_by_sentence(query))


class GeneralAttention(DotAttention):
    """e_j = s · W h_j. Luong et al. 2015, eq. 8, "general"; also known as multiplicative attention."""

    def __init__(self, config: GeneralConfig, d_query: int, d_memory: int, d_attention: int) -> None:
        super().__init__(config, d_query, d_memory, d_attention)
        self.key = linear(d_memory, d_query, bias=False)  # W_a

    def project_keys(self, values: Tensor) -> Tensor:
        """W h_j [B, S, D]."""
        return self.key(values)  # type: ignore[no-any-return]


class LocalAttention(RecurrentAttention):
    """a_j = softmax over the window(e_j) · exp(-(j - p)² / 2σ²), p = S · sigmoid(v · tanh(W s)), σ = window / 2.

    Luong et al. 2015, eqs. 9 and 10, "local-p". https://arxiv.org/abs/1508.04025 The window holds the positions j from
    p - window to p + window. Positions count the real source tokens from 0, the end of sentence included, and S is
    their number. As in the paper the weights do not sum to one, and p gets its gradient through the distances alone.
    """

    def __init__(self, config: LocalConfig, d_query: int, d_memory: int, d_attention: int) -> None:
        super().__init__(config, d_query, d_memory, d_attention)
        self.score = config.score.build(d_query, d_memory, d_attention)  # gives the e_j
        self.window = config.window
        self.query = linear(d_query, d_query, bias=False)  # W_p
        self.position = linear(d_query, 1, bias=False)  # v_p

    def project_keys(self, values: Tensor) -> Tensor:
        """The keys of `score`."""
        return self.score.project_keys(values)

    def make_score_fn(self, memory: Annotations) -> ScoreFn:
        """The scores of `score`."""
        return self.score.make_score_fn(memory)

    def make_weight_fn(self, memory: Annotations) -> WeightFn:
        """See RecurrentAttention; positions are computed in float32 at least."""
        to_query, to_position = recurrent_linear(self.query), recurrent_linear(self.position)
        real = memory.real.unsqueeze(1)  # [B, 1, S]
        positions = real.cumsum(-1) - 1  # [B, 1, S]
        lengths = real.sum(-1, keepdim=True)  # [B, 1, 1]

        def weigh(scores: Tensor, query: Tensor) -> Tensor:
            predicted = memory.group_by_sentence(to_position(torch.tanh(to_query(query))))  # [B, W, 1]
            precise = predicted.to(torch.promote_types(predicted.dtype, torch.float32))
            distance = positions - lengths * precise.sigmoid()  # [B, W, S]
            weights = softmax_over_visible(scores, real & (distance.abs() <= self.window))
            return weights * torch.exp(-2 * (distance / self.window) ** 2).to(weights.dtype)

        return weigh


class AdditiveAttention(RecurrentAttention):
    """e_j = v · tanh(W s + U h_j). Bahdanau, Cho & Bengio 2015, appendix A.1.2. https://arxiv.org/abs/1409.0473

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
        product, keys = recurrent_linear(self.query), memory.keys

        def project(query: Tensor) -> Tensor:
            return memory.group_by_sentence(product(query))  # [B, W, A]

        if type(self.score) is not Projection or not torch.is_grad_enabled():
            return lambda query: self.score(torch.tanh(keys.unsqueeze(1) + project(query).unsqueeze(2))).squeeze(-1)
        accumulator = _ScoreGradAccumulator()
        v = self.score.weight.squeeze(0).to(keys.dtype)  # [A]
        keys, v = _ShareKeys.apply(keys, v, accumulator)  # type: ignore[no-untyped-call]
        return lambda query: _ScoreStep.apply(project(query).to(keys.dtype), keys, v, accumulator)  # type: ignore[no-untyped-call]


class _ScoreGradAccumulator:
    """Gradients of the keys and of v, added up over the steps of a loop; see deferred_weight_grad.py for the scheme."""

    def __init__(self) -> None:
        self.step_numbers = count()  # of the forward pass
        self.added: set[int] = set()
        self.keys: Tensor | None = None  # [B, S, A], not yet multiplied by v
        self.v: Tensor | None = None  # [A]

    def begin(self, step: int) -> None:
        """Begin to add the gradients of one step.

        The same step twice means that an earlier backward pass did not need these gradients and left them here.
        """
        if step in self.added:
            self.clear()
        self.added.add(step)

    def add(self, keys: Tensor, v: Tensor) -> None:
        """Add the gradients of the step."""
        self.keys = keys if self.keys is None else self.keys.add_(keys)
        self.v = v if self.v is None else self.v.add_(v)

    def totals(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Sums in float32, to which a kernel adds the gradients of the step: of the keys, and of v by sentence."""
        if self.keys is None or self.v is None:
            self.keys = torch.zeros_like(keys, dtype=torch.float32)
            self.v = torch.zeros(keys.size(0), keys.size(2))
        return self.keys, self.v

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
        if grad_keys is None or grad_v is None:
            return None, None, None
        return (grad_keys * v).to(v.dtype), (grad_v.sum(0) if grad_v.dim() == 2 else grad_v).to(v.dtype), None


class _ScoreStep(torch.autograd.Function):
    """v · tanh(query + key) of one step for all pairs; the derivative of tanh is computed once and used three times."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, v: Tensor, accumulator: _ScoreGradAccumulator) -> Tensor:
        ctx.accumulator, ctx.step = accumulator, next(accumulator.step_numbers)
        if native_kernels.can_score(query, keys, v):  # the same in one pass
            hidden, scores = (
                keys.new_empty(*query.shape[:2], *keys.shape[1:]),
                keys.new_empty(*query.shape[:2], keys.size(1)),
            )
            native_kernels.score_additively(query, keys, v, hidden=hidden, scores=scores)
            ctx.save_for_backward(hidden, v, query, keys)
            return scores
        hidden = (keys.unsqueeze(1) + query.unsqueeze(2)).tanh_()  # [B, W, S, A]
        ctx.save_for_backward(hidden, v)
        return hidden @ v

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads  # [B, W, S]
        hidden, v, *others = ctx.saved_tensors
        ctx.accumulator.begin(ctx.step)
        if others:
            query, keys = others
            grad_query, (grad_keys, grad_v) = torch.empty_like(query), ctx.accumulator.totals(keys)
            grads_of = {"grad_query": grad_query, "grad_keys": grad_keys, "grad_v": grad_v}
            native_kernels.score_additively(query, keys, v, hidden=hidden, grad_scores=grad.contiguous(), **grads_of)
            return grad_query, None, None, None
        # [B, W, S, A], gradient before tanh except for the factor v, which is applied to the sums below
        pre_tanh = torch.ops.aten.tanh_backward(grad.unsqueeze(-1).expand_as(hidden), hidden)
        grad_v = grad.reshape(1, -1) @ hidden.flatten(0, 2)  # [1, A]
        grad_query = pre_tanh.sum(2) * v  # [B, W, A]
        grad_keys = pre_tanh.squeeze(1) if pre_tanh.size(1) == 1 else pre_tanh.sum(1)  # [B, S, A]
        ctx.accumulator.add(grad_keys, grad_v.squeeze(0))
        return grad_query, None, None, None
