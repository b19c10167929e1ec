"""Unstructured pruning: single weights of small magnitude become 0."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from mtkit.errors import UsageError


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
