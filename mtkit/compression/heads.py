"""Pruning of attention heads by importance. Michel et al. 2019, https://arxiv.org/abs/1905.10650"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from mtkit.corpus.order.batch import Batch
from mtkit.errors import UsageError
from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.attention.multi_head import SelfAttention
from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.cross_entropy import CrossEntropy

# path of an attention module below the model -> key of its head counts
_KEYS = {"encoder.attention": "encoder_heads", "decoder.attention": "decoder_heads"} | {
    "decoder.cross_attention": "cross_heads"
}


def attention_modules(model: nn.Module) -> dict[str, SelfAttention | CrossAttention]:
    """Attention modules of a Transformer by path, such as decoder.0.cross_attention."""
    return {name: each for name, each in model.named_modules() if isinstance(each, SelfAttention | CrossAttention)}


def head_importance(model: TranslationModel, batches: Iterable[Batch]) -> dict[str, Tensor]:
    """Expected sensitivity of the loss to a mask ξ on each head, I_h = E |∂L/∂ξ_h|. Michel et al. 2019, eq. 2.

    The derivative by the mask at ξ = 1 is the product of the head's output and its gradient, summed over positions. The
    expectation is over sentences. The importances of a layer are divided by their l2 norm (sec. 2.3).

    Args:
        model: a Transformer, in eval mode.
        batches: sentence pairs.

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


def choose_heads(importance: Mapping[str, Tensor], fraction: float) -> dict[str, list[int]]:
    """The heads that are kept in each module, ascending: the least important `fraction` of all heads is removed.

    Raises:
        UsageError: less than one head would be left in a module.
    """
    total = sum(values.numel() for values in importance.values())
    count = round(fraction * total)
    if count > total - len(importance):
        raise UsageError(
            f"--fraction {fraction}: removes {count} of {total} heads, but each of {len(importance)} attention modules "
            f"keeps at least one; the maximum is {(total - len(importance)) / total:.2f}"
        )
    keep = {name: set(range(values.numel())) for name, values in importance.items()}
    ranked = sorted(
        (float(value), name, head) for name, values in importance.items() for head, value in enumerate(values)
    )
    for _, name, head in ranked:
        if count and len(keep[name]) > 1:
            keep[name].remove(head)
            count -= 1
    return {name: sorted(heads) for name, heads in keep.items()}


def prune_heads(
    config: TransformerConfig, tensors: Mapping[str, Tensor], keep: Mapping[str, list[int]]
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """A model without some heads: the rows and columns of its weights that belong to the others.

    Args:
        config: of the model.
        tensors: its weights by name.
        keep: for each attention module the heads that are kept, ascending.

    Returns:
        The configuration with the counts of heads, and the weights.

    Raises:
        ValueError: as `HeadCounts.check`.
    """
    pruned = dict(tensors)
    head_dim = config.heads.head_dim
    counts: dict[str, list[int]] = {}
    for name, heads in sorted(keep.items(), key=lambda item: [int(n) for n in re.findall(r"\d+", item[0])]):
        stack, _, kind = name.split(".")
        counts.setdefault(_KEYS[f"{stack}.{kind}"], []).append(len(heads))
        for full, parts in _projections(name, tensors):
            pruned[full] = _take_heads(tensors[full], parts, head_dim, heads)
        pruned[f"{name}.out.weight"] = _take_heads(tensors[f"{name}.out.weight"].T, 1, head_dim, heads).T.contiguous()
    result = replace(
        config,
        head_dim=head_dim,
        encoder_heads=counts["encoder_heads"],
        decoder_heads=counts["decoder_heads"],
        cross_heads=counts["cross_heads"],
    )
    return result, pruned


def _projections(name: str, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, int]]:
    """Weights and biases to the heads of an attention module, with the number of projections that each holds."""
    for part, leaf in itertools.product(("query_key_value", "query", "key_value"), ("weight", "bias")):
        if (full := f"{name}.{part}.{leaf}") in tensors:
            yield full, len(part.split("_"))


def _take_heads(tensor: Tensor, parts: int, head_dim: int, heads: list[int]) -> Tensor:
    """Rows of some heads: [parts·H·K, ...] -> [parts·H'·K, ...]."""
    split = tensor.reshape(parts, -1, head_dim, *tensor.shape[1:])
    return split[:, heads].flatten(0, 2).contiguous()
