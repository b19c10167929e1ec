"""Weights of a model by name, tied ones once."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from mtkit.training.distributed.fsdp import copy_into_shard


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers by name; a tied weight has the first of its names."""
    saved = model.state_dict().keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in saved}
    return {**{name: p.detach() for name, p in model.named_parameters()}, **buffers}


def mismatches(model: nn.Module, tensors: Mapping[str, Tensor]) -> list[str]:
    """Compare tensors with the weights of a model; return an error for each missing, unknown or differently shaped."""
    own = weights(model)
    errors = [f"{name} is missing" for name in own.keys() - tensors.keys()]
    errors += [f"{name} is unknown" for name in tensors.keys() - own.keys()]
    errors += [
        f"{name} is {list(tensors[name].shape)}, the model has {list(own[name].shape)}"
        for name in own.keys() & tensors.keys()
        if tensors[name].shape != own[name].shape
    ]
    return sorted(errors)


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy tensors that `weights` returned into a model.

    Raises:
        ValueError: they are the weights of another model; the message lists the mismatches.
    """
    if errors := mismatches(model, tensors):
        raise ValueError(f"these are not the weights of this model: {'; '.join(errors)}")
    own = weights(model)
    for name, tensor in tensors.items():
        copy_into_shard(own[name], tensor)
