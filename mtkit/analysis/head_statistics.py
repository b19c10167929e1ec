"""Statistics of attention weights, how spread out they are and where they look, and importance of heads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from mtkit.corpus.order.batch import Batch
from mtkit.layers.attention import CrossAttention, SelfAttention
from mtkit.layers.softmax import DotProductAttention
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.cross_entropy import CrossEntropy

# Means over the queries of a text: entropy of the attention weights in nats; the largest weight (Voita et al. 2019,
# sec. 4, https://aclanthology.org/P19-1580/); of self-attention also the share of queries whose largest weight is on
# the previous token, their own position, and the next one ("positional heads" have about 1 in one of them)
STATISTICS = ("entropy", "confidence", "previous", "same", "next")


@contextmanager
def recorded_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Record the attention weights [B, H, T, S] of the last forward pass by the path of the attention module.

    Attention with another kernel than a softmax over all visible keys has no such weights and is left out.
    """
    weights: dict[str, Tensor] = {}

    def record(name: str, output: tuple[Tensor, Tensor]) -> None:
        weights[name] = output[1].detach()

    hooks = [
        kernel.register_forward_hook(lambda _, args, output, name=name: record(name, output))
        for name, module in attention_modules(model).items()
        for kernel in module.modules()
        if isinstance(kernel, DotProductAttention)
    ]
    try:
        yield weights
    finally:
        for hook in hooks:
            hook.remove()


class HeadSums:
    """Sums of the statistics of one attention module over batches."""

    def __init__(self, *, is_self_attention: bool) -> None:
        self._is_self_attention = is_self_attention
        self._queries = 0
        self._sums: Tensor | None = None  # [H, 2 or 5]

    def add(self, weights: Tensor, real: Tensor) -> None:
        """Count the weights [B, H, T, S] of the queries that are `real` [B, T]."""
        statistics = [entropy(weights), weights.amax(-1)]  # [B, H, T] each
        if self._is_self_attention:
            offset = weights.argmax(-1) - torch.arange(weights.size(2), device=weights.device)
            statistics += [(offset == each).to(weights.dtype) for each in (-1, 0, 1)]
        of_queries = torch.stack(statistics, -1) * real[:, None, :, None]  # [B, H, T, 2 or 5]
        sums = of_queries.double().sum((0, 2))
        self._sums = sums if self._sums is None else self._sums + sums
        self._queries += int(real.sum())

    def means(self) -> Tensor:
        """[H, 5] STATISTICS, or [H, 2] the first two for cross-attention.

        Raises:
            ValueError: nothing was added.
        """
        if self._sums is None:
            raise ValueError("no batches")
        return self._sums / max(1, self._queries)


def entropy(weights: Tensor) -> Tensor:
    """-sum w ln w over the last dimension, in nats; 0 ln 0 is 0."""
    entropies: Tensor = torch.special.entr(weights)
    return entropies.sum(-1)


def is_self_attention(name: str) -> bool:
    """Return whether the path of an attention module is that of self-attention."""
    return not name.endswith("cross_attention")


def real_queries(name: str, batch: Batch) -> Tensor:
    """True for queries that are no padding, [B, T], of the module with this path."""
    return batch.source.real if name.startswith("encoder.") else batch.target.real


def forced_attention(model: TranslationModel, batch: Batch) -> Tensor:
    """Attention over the source at each step of the references, the mean over heads, [B, T, S].

    Raises:
        ValueError: the model has no attention over the source.
    """
    state = model.start(batch.source)
    steps = []
    for token in batch.target.ids.T:  # [B]
        step = model.step(token, state)
        if step.attention is None:
            raise ValueError("no attention over the source")
        steps.append(step.attention.mean(1))
        state = step.state
    return torch.stack(steps, 1)


def attention_modules(model: nn.Module) -> dict[str, SelfAttention | CrossAttention]:
    """Attention modules of a Transformer by path, such as decoder.0.cross_attention."""
    return {name: each for name, each in model.named_modules() if isinstance(each, SelfAttention | CrossAttention)}


def head_importance(model: TranslationModel, batches: Iterable[Batch]) -> dict[str, Tensor]:
    """Expected sensitivity of the loss to a mask ξ on each head, I_h = E |∂L/∂ξ_h|. Michel et al. 2019, eq. 2.

    The derivative by the mask at ξ = 1 is the product of the head's output and its gradient, summed over positions. The
    expectation is over sentences. The importances of a layer are divided by their l2 norm (sec. 2.3).

    Args:
        model: a Transformer, in eval mode.

    Returns:
        [H] for each attention module, by path.
    """
    attention = attention_modules(model)
    importance = {name: torch.zeros(each.heads.num_heads) for name, each in attention.items()}
    outputs: dict[str, Tensor] = {}  # of the heads of a batch, [B, T, H·K]

    def record(name: str, x: Tensor) -> None:
        x.retain_grad()
        outputs[name] = x

    hooks = [
        each.out.register_forward_pre_hook(lambda _, args, name=name: record(name, args[0]))
        for name, each in attention.items()
    ]
    objective = CrossEntropy(TeacherForcing(), 0.0)
    try:
        for batch in batches:
            loss: Tensor = model(batch, objective).sum
            loss.backward()  # type: ignore[no-untyped-call]
            for name, x in outputs.items():
                products = torch.zeros_like(x) if x.grad is None else x.detach() * x.grad  # [B, T, H·K]
                by_head = products.view(*x.shape[:2], importance[name].numel(), -1)  # [B, T, H, K]
                importance[name] += by_head.sum((1, 3)).abs().sum(0)
            model.zero_grad(set_to_none=True)
    finally:
        for hook in hooks:
            hook.remove()
    return {
        name: values / values.norm().clamp(min=torch.finfo(values.dtype).tiny) for name, values in importance.items()
    }
