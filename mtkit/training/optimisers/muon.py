"""Muon for the matrices inside of a model, AdamW for its embeddings, output and vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from mtkit.training.optimisers.torch_optimisers import Beta, NonNegative, Rate, remember_rate, trainable


class Joined(torch.optim.Optimizer):
    """Several optimisers as one; the groups of each keep its number as `member`."""

    def __init__(self, members: Sequence[torch.optim.Optimizer]) -> None:
        groups = [{**group, "member": number} for number, one in enumerate(members) for group in one.param_groups]
        super().__init__(groups, {})
        self._members = members

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update by each; there is no closure."""
        for number, member in enumerate(self._members):
            member.state = self.state  # one memory, which a checkpoint may have replaced
            member.param_groups = [group for group in self.param_groups if group["member"] == number]
            member.step()


@dataclass(frozen=True, kw_only=True)
class MuonConfig:
    """Orthogonalised momentum (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon), as torch has it.

    Matrices inside of the model; embeddings, the output, gains and biases are AdamW's, with the same rate: updates of
    matrices are scaled by 0.2 sqrt(larger side), which gives them AdamW's usual root mean square (Liu et al. 2025,
    eq. 4, https://arxiv.org/abs/2502.16982).
    """

    kind: Literal["muon"] = "muon"
    learning_rate: Rate = 2e-3  # at the schedule's peak
    momentum: Beta = 0.95
    iterations: int = 5  # of Newton-Schulz
    beta1: Beta = 0.9  # AdamW's, as the next two
    beta2: Beta = 0.98
    eps: Rate = 1e-9
    weight_decay: NonNegative = 0.01  # times the rate, per update, of all matrices

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimiser over all trainable parameters of `model`."""
        inner = {id(p) for p in inner_matrices(model)}
        matrices = [p for p in trainable(model) if id(p) in inner]
        rest = [p for p in trainable(model) if id(p) not in inner]
        decayed = [p for p in rest if p.dim() >= 2]
        groups = [
            {"params": decayed, "weight_decay": self.weight_decay},
            {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
        ]
        adamw = torch.optim.AdamW(
            remember_rate(groups, self.learning_rate),
            lr=self.learning_rate,
            betas=(self.beta1, self.beta2),
            eps=self.eps,
            fused=True,
        )
        if not matrices:
            return adamw
        muon = torch.optim.Muon(
            remember_rate([{"params": matrices}], self.learning_rate),
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            ns_steps=self.iterations,
            adjust_lr_fn="match_rms_adamw",
        )
        return Joined([muon, adamw])


def inner_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The weights of linear layers that no embedding shares, the one to the vocabulary (`output`) left out."""
    outer = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    linear = [module for name, module in model.named_modules() if isinstance(module, nn.Linear) and name != "output"]
    weights = [weight for module in linear for weight in module.parameters(recurse=False) if weight.dim() == 2]
    return [weight for weight in weights if id(weight) not in outer]
