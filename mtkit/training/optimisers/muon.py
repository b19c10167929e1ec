"""Muon for the hidden matrices of a model, AdamW for its embeddings, output projection and vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import nn

from mtkit.training.optimisers.base import (
    Beta,
    NonNegative,
    OptimiserConfigBase,
    PositiveFloat,
    trainable,
    with_peak_lr,
)


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


@dataclass(frozen=True, kw_only=True)
class MuonConfig(OptimiserConfigBase):
    """Orthogonalised momentum (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon), torch's implementation.

    It trains hidden matrices. Embeddings, output projection, gains and biases are trained by AdamW at the same learning
    rate: updates of matrices are scaled by 0.2 sqrt(longer side), which gives them AdamW's usual root mean square (Liu
    et al. 2025, eq. 4, https://arxiv.org/abs/2502.16982).
    """

    bytes_per_weight: ClassVar[int] = 8  # AdamW's; 4 of hidden matrices
    needs_whole_matrices: ClassVar[bool] = True

    kind: Literal["muon"] = "muon"
    learning_rate: PositiveFloat = 2e-3  # at the schedule's peak; AdamW's default
    momentum: Beta = 0.95  # the authors' choice
    ns_steps: int = 5  # Newton-Schulz iterations; the authors' choice
    beta1: Beta = 0.9  # of AdamW
    beta2: Beta = 0.98  # of AdamW
    eps: PositiveFloat = 1e-9  # of AdamW
    weight_decay: NonNegative = 0.01  # of all matrices, times the learning rate, per update

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`."""
        hidden = {id(p) for p in hidden_matrices(model)}
        matrices = [p for p in trainable(model) if id(p) in hidden]
        rest = [p for p in trainable(model) if id(p) not in hidden]
        decayed = [p for p in rest if p.dim() >= 2]
        groups = [
            {"params": decayed, "weight_decay": self.weight_decay},
            {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
        ]
        adamw = torch.optim.AdamW(
            with_peak_lr(groups, self.learning_rate),
            lr=self.learning_rate,
            betas=(self.beta1, self.beta2),
            eps=self.eps,
            fused=True,
        )
        if not matrices:
            return adamw
        muon = torch.optim.Muon(
            with_peak_lr([{"params": matrices}], self.learning_rate),
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            ns_steps=self.ns_steps,
            adjust_lr_fn="match_rms_adamw",
        )
        return CombinedOptimizer([muon, adamw])


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the weights of linear layers, except the output projection and those tied to an embedding."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    linear = [module for name, module in model.named_modules() if isinstance(module, nn.Linear) and name != "output"]
    weights = [weight for module in linear for weight in module.parameters(recurse=False) if weight.dim() == 2]
    return [weight for weight in weights if id(weight) not in embeddings]
