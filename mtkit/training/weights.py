"""The weights of a model by name, tied ones once."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from mtkit.training.distributed.fsdp import fill


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and saved buffers by name; a tied one has the name at which the model first meets it."""
    saved = model.state_dict().keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in saved}
    return {**{name: p.detach() for name, p in model.named_parameters()}, **buffers}


def mismatches(model: nn.Module, tensors: Mapping[str, Tensor]) -> list[str]:
    """Why these are not the weights of this model: each that is missing, unknown or of another shape."""
    own = weights(model)
    faults = [f"{name} is missing" for name in own.keys() - tensors.keys()]
    faults += [f"{name} is unknown" for name in tensors.keys() - own.keys()]
    faults += [
        f"{name} is {list(tensors[name].shape)}, the model has {list(own[name].shape)}"
        for name in own.keys() & tensors.keys()
        if tensors[name].shape != own[name].shape
    ]
    return sorted(faults)


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy into the model what `weights` gave.

    Raises:
        ValueError: they are those of another model; says why, see `mismatches`.
    """
    if faults := mismatches(model, tensors):
        raise ValueError(f"these are not the weights of this model: {'; '.join(faults)}")
    own = weights(model)
    for name, tensor in tensors.items():
        fill(own[name], tensor)
