"""Pruning of heads, feed-forward units and layers, which leaves an ordinary, smaller model, and of single weights.

Heads are chosen by importance (Michel et al. 2019, https://arxiv.org/abs/1905.10650), or by the gates of Voita et al.
2019, which training has closed (see layers/variants/head_gates.py).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from mtkit.errors import UsageError
from mtkit.layers.config import DenseConfig
from mtkit.layers.variants.config import MixtureOfExpertsConfig
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
        # weights and biases to the heads, with the projections that each holds
        for part, leaf in itertools.product(("query_key_value", "query", "key_value"), ("weight", "bias")):
            if (full := f"{name}.{part}.{leaf}") in tensors:
                widths = [value_width if each == "value" else width for each in part.split("_")]
                pruned[full] = _take_heads(tensors[full], widths, heads)
        pruned[f"{name}.out.weight"] = _take_heads(tensors[f"{name}.out.weight"].T, [value_width], heads).T.contiguous()
    heads_of_layers: dict[str, Any] = {key: counts[key] for key in _KEYS.values()}
    return replace(config, head_dim=width, alignment_head=None, **heads_of_layers), pruned


def _take_heads(tensor: Tensor, widths: list[int], heads: list[int]) -> Tensor:
    """Rows of some heads, in blocks of H heads of one width each: [H·sum(widths), ...] -> [H'·sum(widths), ...]."""
    total = tensor.size(0) // sum(widths)  # H
    blocks = torch.split(tensor, [total * width for width in widths])
    rows = [block.reshape(total, -1, *tensor.shape[1:])[heads].flatten(0, 1) for block in blocks]
    return torch.cat(rows).contiguous()


# feed-forward sublayers, whose width is `d_ff`; average attention has others, of its own width
_INNER_WEIGHT = re.compile(r"((?:encoder|decoder)\.\d+\.feed_forward)\.inner\.weight")


def prune_feed_forward(
    config: TransformerConfig, tensors: Mapping[str, Tensor], fraction: float
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """A model without the least important units of each feed-forward layer, the same number in every layer.

    The importance of unit u is |W1[u, :]| |W2[:, u]|, the largest change of the output per unit of input: magnitude
    pruning (Han et al. 2015, https://arxiv.org/abs/1506.02626) of rows and columns instead of single weights.

    Raises:
        UsageError: the feed-forward layers are not dense, or no unit would be left.
    """
    if not isinstance(config.feed_forward, DenseConfig):
        raise UsageError(f"--to ffn: the model's feed_forward.kind is {config.feed_forward.kind}; only dense is pruned")
    d_ff = config.d_ff - round(fraction * config.d_ff)
    if d_ff < 1:
        raise UsageError(
            f"--fraction {fraction}: leaves none of the {config.d_ff} units of a feed-forward layer; lower it"
        )
    pruned = dict(tensors)
    for name in [match[1] for match in map(_INNER_WEIGHT.fullmatch, tensors) if match]:
        inner, outer = tensors[f"{name}.inner.weight"], tensors[f"{name}.outer.weight"]  # [F, D], [D, F]
        units = (inner.norm(dim=1) * outer.norm(dim=0)).topk(d_ff).indices.sort().values
        pruned[f"{name}.inner.weight"], pruned[f"{name}.outer.weight"] = inner[units], outer[:, units].contiguous()
        if f"{name}.inner.bias" in tensors:
            pruned[f"{name}.inner.bias"] = tensors[f"{name}.inner.bias"][units]
    return replace(config, d_ff=d_ff), pruned


def drop_layers(
    config: TransformerConfig,
    tensors: Mapping[str, Tensor],
    *,
    encoder_layers: int | None = None,
    decoder_layers: int | None = None,
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """A model with fewer layers of encoder and decoder, to be trained with the whole one as its teacher.

    Sanh et al. 2019, sec. 3, "taking one layer out of two". https://arxiv.org/abs/1910.01108 The layers that are kept
    are evenly spaced and begin with the first.

    Args:
        tensors: its weights, by name.
        encoder_layers: number that is kept; None: half of them, rounded up.

    Raises:
        UsageError: layers share weights, some but not all are mixtures of experts, or no layer would be dropped, or
            more would be kept than there are.
    """
    if config.encoder_sharing.shares_layers or config.decoder_sharing.shares_layers:
        raise UsageError(
            "--to half-depth: layers of this model share weights; lower encoder_layers in a recipe instead"
        )
    if isinstance(config.feed_forward, MixtureOfExpertsConfig) and config.feed_forward.moe_every > 1:
        raise UsageError(
            f"--to half-depth: feed_forward.moe_every is {config.feed_forward.moe_every}, and the remaining layers "
            "would have dense layers instead of mixtures of experts; only moe_every 1 is pruned"
        )
    kept = {
        "encoder": _kept_layers("encoder", config.encoder_layers, encoder_layers),
        "decoder": _kept_layers("decoder", config.decoder_layers, decoder_layers),
    }
    if len(kept["encoder"]) == config.encoder_layers and len(kept["decoder"]) == config.decoder_layers:
        raise UsageError(
            f"--to half-depth: all layers would be kept, {config.encoder_layers} of the encoder and "
            f"{config.decoder_layers} of the decoder"
        )
    remaining: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        stack, _, rest = name.partition(".")
        number, _, leaf = rest.partition(".")
        if stack not in kept or not number.isdigit():
            remaining[name] = tensor
        elif int(number) in kept[stack]:
            remaining[f"{stack}.{kept[stack].index(int(number))}.{leaf}"] = tensor
    heads: dict[str, Any] = {
        key: counts and [counts[layer] for layer in kept[stack]]
        for key, counts, stack in (
            ("encoder_heads", config.encoder_heads, "encoder"),
            ("decoder_heads", config.decoder_heads, "decoder"),
            ("cross_heads", config.cross_heads, "decoder"),
        )
    }
    sizes: dict[str, Any] = {f"{stack}_layers": len(layers) for stack, layers in kept.items()}
    return replace(config, alignment_head=None, **heads, **sizes), remaining


def _kept_layers(stack: str, count: int, wanted: int | None) -> list[int]:
    """Numbers of the layers that are kept, evenly spaced: 0, 2 of four layers, 0, 2, 3 if three are wanted."""
    kept = math.ceil(count / 2) if wanted is None else wanted
    if kept > count or (not kept and count):
        raise UsageError(f"--{stack}-layers {kept}: the model has {count}; keep 1 to {count}")
    return [math.ceil(i * count / kept) for i in range(kept)]


def prune_weights(tensors: Mapping[str, Tensor], fraction: float, *, parameters: Collection[str]) -> dict[str, Tensor]:
    """A model whose smallest weights are 0: the `fraction` of all entries of its matrices, by absolute value.

    Han et al. 2015, sec. 3 (https://arxiv.org/abs/1506.02626), with one threshold for all matrices: "class-blind"
    pruning, which See, Luong & Manning 2016, sec. 4.2, found best for translation. https://arxiv.org/abs/1606.09274
    Vectors (biases, norms) and buffers (random features) stay. Matrix products take the same time as before.

    Args:
        tensors: weights of the model by name.
        parameters: names of the weights that training changes; all others are buffers.

    Raises:
        UsageError: all weights would be removed.
    """
    if fraction >= 1:
        raise UsageError(f"--fraction {fraction}: leaves no weight; lower it")
    matrices = {name: tensors[name] for name in parameters if tensors[name].dim() == 2}
    magnitudes = torch.cat([matrix.abs().flatten() for matrix in matrices.values()])
    count = round(fraction * magnitudes.numel())
    if count == 0:
        return dict(tensors)
    threshold = magnitudes.kthvalue(count).values
    return {**tensors, **{name: each.masked_fill(each.abs() <= threshold, 0.0) for name, each in matrices.items()}}
