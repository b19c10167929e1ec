"""Muon for the hidden matrices of a model, AdamW for its embeddings, output projection and vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn


class CombinedOptimizer(torch.optim.Optimizer):
    """Several optimisers as one; each parameter group stores its optimiser's number as `member`."""

    def __init__(self, members: Sequence[torch.optim.Optimizer]) -> None:
        groups = [{**group, "member": number} for number, one in enumerate(members) for group in one.param_groups]
        super().__init__(groups, {})
        self._members = members

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Run one step of each member; `closure` is ignored."""
        for number, member in enumerate(self._members):
            member.state = self.state  # shared, and set here because loading a checkpoint replaces it
            member.param_groups = [group for group in self.param_groups if group["member"] == number]
            member.step()


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the weights of linear layers, except the output projection and those tied to an embedding."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    linear = [module for name, module in model.named_modules() if isinstance(module, nn.Linear) and name != "output"]
    weights = [weight for module in linear for weight in module.parameters(recurse=False) if weight.dim() == 2]
    return [weight for weight in weights if id(weight) not in embeddings]
