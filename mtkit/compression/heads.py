"""Pruning of attention heads: by importance (Michel et al. 2019, https://arxiv.org/abs/1905.10650), or by gates.

Gates are those of Voita et al. 2019, which training has closed (see layers/variants/head_gates.py).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from mtkit.errors import UsageError
from mtkit.layers.variants.head_gates import GatedProjection
from mtkit.models.transformer.config import TransformerConfig

# path of an attention module below the model -> key of its head counts
_KEYS = {
    "encoder.attention": "encoder_heads",
    "decoder.attention": "decoder_heads",
    "decoder.cross_attention": "cross_heads",
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


def choose_open_heads(model: nn.Module, fraction: float | None) -> dict[str, list[int]]:
    """The heads of each attention module that are kept, ascending: those whose gates are open in evaluation.

    A module with closed gates alone keeps the head whose gate was open longest, with the weight 0.

    Args:
        model: with gates, in eval mode.
        fraction: of all heads that is removed instead, beginning with those that are open least often.

    Raises:
        UsageError: less than one head would be left in a module.
    """
    gated = gated_projections(model)
    log_alpha = {name: each.log_alpha.detach() for name, each in gated.items()}
    if fraction is not None:
        return choose_heads(log_alpha, fraction)
    is_open = {name: each.gates().detach() > 0 for name, each in gated.items()}
    return {
        name: each.nonzero().flatten().tolist() or [int(log_alpha[name].argmax())] for name, each in is_open.items()
    }


def fold_gates(
    config: TransformerConfig, model: nn.Module, tensors: Mapping[str, Tensor]
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """The same model without gates: those of evaluation are multiplied into the output projections.

    Args:
        model: with gates, in eval mode.
        tensors: its weights by name.
    """
    folded = dict(tensors)
    for name, out in gated_projections(model).items():
        del folded[f"{name}.out.gate_weight"]
        gates = out.gates().detach().repeat_interleave(config.heads.value_dim)  # [H·V]
        folded[f"{name}.out.weight"] = tensors[f"{name}.out.weight"] * gates
    return replace(config, head_gates=None), folded


def gated_projections(model: nn.Module) -> dict[str, GatedProjection]:
    """Output projections with gates, by the path of their attention module."""
    modules = model.named_modules()
    return {name.removesuffix(".out"): each for name, each in modules if isinstance(each, GatedProjection)}


def prune_heads(
    config: TransformerConfig, tensors: Mapping[str, Tensor], keep: Mapping[str, list[int]]
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """A model without some heads: the rows and columns of its weights that belong to the others.

    Args:
        tensors: its weights by name.
        keep: for each attention module the heads that are kept, ascending.

    Returns:
        The configuration with the counts of heads, and the weights.

    Raises:
        ValueError: as `HeadCounts.check`.
    """
    pruned = dict(tensors)
    width, value_width = config.heads.head_dim, config.heads.value_dim
    counts: dict[str, list[int]] = {}
    for name, heads in sorted(keep.items(), key=lambda item: [int(n) for n in re.findall(r"\d+", item[0])]):
        stack, _, kind = name.split(".")
        counts.setdefault(_KEYS[f"{stack}.{kind}"], []).append(len(heads))
        for full, parts in _projections(name, tensors):
            widths = [value_width if part == "value" else width for part in parts]
            pruned[full] = _take_heads(tensors[full], widths, heads)
        pruned[f"{name}.out.weight"] = _take_heads(tensors[f"{name}.out.weight"].T, [value_width], heads).T.contiguous()
    result = replace(
        config,
        head_dim=width,
        encoder_heads=counts["encoder_heads"],
        decoder_heads=counts["decoder_heads"],
        cross_heads=counts["cross_heads"],
    )
    return result, pruned


def _projections(name: str, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, list[str]]]:
    """Weights and biases to the heads of an attention module, with the projections that each holds."""
    for part, leaf in itertools.product(("query_key_value", "query", "key_value"), ("weight", "bias")):
        if (full := f"{name}.{part}.{leaf}") in tensors:
            yield full, part.split("_")


def _take_heads(tensor: Tensor, widths: list[int], heads: list[int]) -> Tensor:
    """Rows of some heads, in blocks of H heads of one width each: [H·sum(widths), ...] -> [H'·sum(widths), ...]."""
    total = tensor.size(0) // sum(widths)  # H
    blocks = torch.split(tensor, [total * width for width in widths])
    rows = [block.reshape(total, -1, *tensor.shape[1:])[heads].flatten(0, 1) for block in blocks]
    return torch.cat(rows).contiguous()
