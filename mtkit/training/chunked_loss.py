"""Label-smoothed cross-entropy and other functions of the logits, computed in chunks of positions.

The logits [N, V] of a batch are its largest tensor by far. Chunks of CHUNK_SIZE positions keep only [CHUNK_SIZE, V] of
them in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from mtkit.layers.matmul import add_product, compute_dtype, multiply, operand
from mtkit.layers.native_kernels import Panels, can_normalise, normalise_

CHUNK_SIZE = 512  # positions whose logits exist at one time; 256 to 512 were the fastest on CPU
BLOCK_SIZE = 1 << 17  # logits that take all operations of a softmax in turn: half a megabyte, for the cache of a core


class TokenPredictions(NamedTuple):
    """The most probable token at each position of a chunk or a batch."""

    confidence: Tensor  # [n] its probability
    is_correct: Tensor  # [n] bool, no token is more probable than the target


_recorder: ContextVar[list[TokenPredictions] | None] = ContextVar("token_predictions", default=None)


@contextmanager
def record_predictions() -> Iterator[list[TokenPredictions]]:
    """Open a scope in which the loss records the predictions of each chunk, without gradient only.

    They cost nothing: the loss computes the largest logit and the normaliser anyway.
    """
    predictions: list[TokenPredictions] = []
    token = _recorder.set(predictions)
    try:
        yield predictions
    finally:
        _recorder.reset(token)


class _ChunkLoss(NamedTuple):
    """Intermediate results of the loss of a chunk."""

    max_logit: Tensor  # [n, 1]
    target_logit: Tensor  # [n, 1]
    norm: Tensor  # [n, 1] sum of exp(logit - max_logit)

    def loss(self, smoothing: float) -> Tensor:
        """The summed loss without `uniform_part`."""
        return (self.max_logit + self.norm.log()).sum() - (1 - smoothing) * self.target_logit.sum()


def softmax_(logits: Tensor, bias: Tensor | None, target: Tensor) -> _ChunkLoss:
    """Overwrite logits [n, V] with the probabilities of the logits plus a bias [V], computed in float32 at least.

    On a CPU it takes a few rows at a time through all operations, while they are in the cache.
    """
    if can_normalise(logits, bias):  # the same in one pass
        return _ChunkLoss(*normalise_(logits, bias, target))
    wide = torch.promote_types(logits.dtype, torch.float32)
    max_logit, target_logit, norm = logits.new_empty(3, logits.size(0), 1, dtype=wide)
    for block in row_blocks(logits):
        probs = logits[block].to(wide)  # [step, V]; the logits themselves if they are of this type
        if bias is not None:
            probs += bias
        target_logit[block] = probs.gather(1, target[block].unsqueeze(1))
        torch.amax(probs, 1, keepdim=True, out=max_logit[block])
        torch.sum(probs.sub_(max_logit[block]).exp_(), 1, keepdim=True, out=norm[block])
        logits[block] = probs.div_(norm[block])
    return _ChunkLoss(max_logit, target_logit, norm)


def row_blocks(logits: Tensor) -> Iterator[slice]:
    """The rows of logits [n, V] that take all operations in turn: BLOCK_SIZE logits on a CPU, else all rows."""
    rows, width = logits.shape
    step = max(1, BLOCK_SIZE // width) if logits.device.type == "cpu" else max(1, rows)
    return (slice(start, start + step) for start in range(0, rows, step))


class _LossInputs(NamedTuple):
    """The inputs of the loss, as the matrix products read them."""

    hidden: Tensor  # [N, D]
    weight: Tensor  # [V, D]
    bias: Tensor | None  # [V]
    target: Tensor  # [N]
    smoothing: float
    dtype: torch.dtype  # of the matrix products

    def chunks(self) -> Iterator[tuple[slice, Tensor, _ChunkLoss]]:
        """The positions of each chunk, their probabilities [n, V], and the results of their loss."""
        panels = Panels()
        for start in range(0, self.hidden.size(0), CHUNK_SIZE):
            chunk = slice(start, start + CHUNK_SIZE)
            logits = multiply(self.hidden[chunk], self.weight.mT, self.dtype, self.dtype, panels)  # [n, V]
            result = softmax_(logits, self.bias, self.target[chunk])
            yield chunk, logits, result

    def uniform_part(self) -> Tensor:
        """e / V times the sum of all logits of the batch: the sum of the states times the sum of the weights."""
        rate, wide = self.smoothing / self.weight.size(0), torch.promote_types(self.hidden.dtype, torch.float32)
        total = (self.hidden.sum(0, dtype=wide) * self.weight.sum(0, dtype=wide)).sum()  # autocast leaves `*` alone
        if self.bias is not None:
            total = total + self.hidden.size(0) * self.bias.sum(dtype=wide)
        return rate * total


class _ChunkedLoss(torch.autograd.Function):
    """Projection and loss chunk by chunk; the forward pass also computes the gradient, while the logits exist.

    d loss / d logits = P - (1 - e) onehot(target) - e / V, with the model's probabilities P [N, V]. Only P is
    multiplied by matrices, in the type of autocast. The other two terms are a row of the weights for each position and
    a constant, so that they are added in float32 and without a pass over the logits.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
    ) -> Tensor:
        inputs = _cast_inputs(hidden, weight, bias, target, smoothing)
        wide = torch.promote_types(inputs.hidden.dtype, torch.float32)
        total = -inputs.uniform_part()
        grad_hidden = torch.empty_like(hidden, dtype=wide)  # [N, D]
        _, needs_weight, needs_bias, *_ = ctx.needs_input_grad  # frozen ones have no gradient, which is large
        grad_weight = torch.zeros_like(weight, dtype=wide) if needs_weight else None  # [V, D]
        grad_bias = torch.zeros_like(bias, dtype=wide) if bias is not None and needs_bias else None  # [V]
        panels = Panels()
        for chunk, probs, result in inputs.chunks():
            total += result.loss(smoothing)
            grad_hidden[chunk] = multiply(probs, inputs.weight, inputs.dtype, panels=panels)
            if grad_weight is not None:
                add_product(grad_weight, probs.mT, inputs.hidden[chunk], inputs.dtype)
            if grad_bias is not None:
                grad_bias += probs.sum(0, dtype=wide)
        # minus the gradient of the target distribution (1 - e) onehot(target) + e / V
        hidden_wide, weight_wide, uniform = hidden.to(wide), weight.to(wide), smoothing / weight.size(0)
        grad_hidden.sub_(weight_wide[target], alpha=1 - smoothing).sub_(weight_wide.sum(0), alpha=uniform)
        if grad_weight is not None:
            grad_weight.index_add_(0, target, hidden_wide, alpha=smoothing - 1).sub_(hidden_wide.sum(0), alpha=uniform)
        if grad_bias is not None:
            ones = torch.ones_like(target, dtype=grad_bias.dtype)
            grad_bias.index_add_(0, target, ones, alpha=smoothing - 1).sub_(uniform * target.numel())
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.dtypes = hidden.dtype, weight.dtype, None if bias is None else bias.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (factor,) = grads
        scaled = (
            None if saved is None else saved.mul(factor.to(saved.dtype)).to(dtype)
            for saved, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        )
        return *scaled, None, None


def _cast_inputs(hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float) -> _LossInputs:
    dtype = compute_dtype(hidden)
    return _LossInputs(operand(hidden, dtype), operand(weight, dtype), bias, target, smoothing, dtype)


def label_smoothed_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, *, smoothing: float
) -> Tensor:
    """Cross-entropy of the projected states against a target mixed with the uniform distribution.

    Szegedy et al. 2016, sec. 7, q'(k) = (1 - e) q(k) + e / V. https://arxiv.org/abs/1512.00567
    Projection and loss are computed in chunks, so that the logits [N, V] never exist as a whole.

    Args:
        hidden: [N, D] decoder states of the N positions in the loss, any float type; sums in float32.
        weight: [V, D] output embedding.
        bias: [V], or None.
        target: [N] ids.
        smoothing: e, 0 <= e < 1.

    Returns:
        Scalar, nats summed over the N tokens (the caller divides by their number over all devices).

    Raises:
        ValueError: smoothing is outside [0, 1).
    """
    if not 0.0 <= smoothing < 1.0:
        raise ValueError(f"label smoothing {smoothing} is outside [0, 1)")
    if torch.is_grad_enabled():
        loss: Tensor = _ChunkedLoss.apply(hidden, weight, bias, target, smoothing)  # type: ignore[no-untyped-call]
        return loss
    inputs = _cast_inputs(hidden, weight, bias, target, smoothing)
    losses, recorder = [], _recorder.get()
    for _, _, result in inputs.chunks():
        losses.append(result.loss(smoothing))
        if recorder is not None:
            # the most probable token has the probability exp(max_logit - max_logit) / norm
            is_correct = (result.target_logit == result.max_logit).squeeze(1)
            recorder.append(TokenPredictions(result.norm.reciprocal().squeeze(1), is_correct))
    return torch.stack(losses).sum() - inputs.uniform_part() if losses else hidden.new_zeros((), dtype=torch.float32)


def apply_chunked(function: Callable[..., Tensor], *tensors: Tensor) -> list[Tensor]:
    """Apply a function to CHUNK_SIZE rows of the tensors at a time; its activations are recomputed for the gradient.

    Args:
        function: takes one chunk of each tensor; it must not use random numbers.
        tensors: tensors with the same first dimension.
    """
    chunks = zip(*(torch.split(each, CHUNK_SIZE) for each in tensors), strict=True)
    if not torch.is_grad_enabled():
        return [function(*chunk) for chunk in chunks]
    return [checkpoint(function, *chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]


def log_probs(output: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
    """Log-probabilities [n, V] of the next token in states [n, D], float32 or better."""
    logits = output(hidden)
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
