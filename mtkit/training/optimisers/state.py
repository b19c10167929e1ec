"""The state of an optimiser as named tensors, for checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from mtkit.training.distributed.fsdp import shard_like


def optimiser_tensors(optimiser: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return the optimiser's state by name, `PARAMETER/KEY`, which is independent of the parameter groups.

    Raises:
        ValueError: a state entry is neither a tensor nor a number.
    """
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in optimiser.state.get(parameter, {}).items():
            if not isinstance(value, Tensor | int | float):
                raise ValueError(f"optimiser state {key} of {name} is a {type(value).__name__}")
            tensors[f"{name}/{key}"] = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
    return tensors


def load_optimiser(optimiser: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state that `optimiser_tensors` returned; learning rates and other options stay the recipe's."""
    index = {p: i for i, p in enumerate(_grouped_parameters(optimiser))}
    number = {name: index[p] for name, p in model.named_parameters() if p in index}
    state: dict[int, dict[str, Tensor]] = {}
    own = dict(model.named_parameters())
    for full_name, tensor in tensors.items():
        name, _, key = full_name.rpartition("/")
        is_moment = tensor.shape == own[name].shape  # other entries, such as the number of steps, are never sharded
        state.setdefault(number[name], {})[key] = shard_like(tensor, own[name]) if is_moment else tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def _grouped_parameters(optimiser: torch.optim.Optimizer) -> Iterable[nn.Parameter]:
    for group in optimiser.param_groups:
        yield from group["params"]
