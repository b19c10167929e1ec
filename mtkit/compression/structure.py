"""Pruning: feed-forward units and layers, which leaves an ordinary, smaller model, and single weights."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from mtkit.errors import UsageError
from mtkit.layers.config import DenseConfig
from mtkit.layers.variants.config import MixtureOfExpertsConfig
from mtkit.models.transformer.config import TransformerConfig

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
    dropped = replace(
        config,
        encoder_layers=len(kept["encoder"]),
        decoder_layers=len(kept["decoder"]),
        encoder_heads=_of_layers(config.encoder_heads, kept["encoder"]),
        decoder_heads=_of_layers(config.decoder_heads, kept["decoder"]),
        cross_heads=_of_layers(config.cross_heads, kept["decoder"]),
    )
    return dropped, remaining


def _kept_layers(stack: str, count: int, wanted: int | None) -> list[int]:
    """Numbers of the layers that are kept, evenly spaced: 0, 2 of four layers, 0, 2, 3 if three are wanted."""
    kept = math.ceil(count / 2) if wanted is None else wanted
    if kept > count or (not kept and count):
        raise UsageError(f"--{stack}-layers {kept}: the model has {count}; keep 1 to {count}")
    return [math.ceil(i * count / kept) for i in range(kept)]


def _of_layers(heads: list[int] | None, layers: list[int]) -> list[int] | None:
    return heads and [heads[layer] for layer in layers]


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
