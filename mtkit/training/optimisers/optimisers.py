"""Optimisers: parameter groups, learning rates, the state as named tensors, and the kinds of a recipe.

Every parameter group stores its peak learning rate, which the schedule scales. With FSDP a parameter and its state are
sharded: an optimiser whose `step` is written here computes with `local_shard` of them (see Lion), or sets
`needs_whole_matrices`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mtkit.training.distributed import local_shard, shard_like
from mtkit.training.optimisers.config import (
    AdadeltaConfig,
    AdafactorConfig,
    AdamConfig,
    AdamWConfig,
    LionConfig,
    MuonConfig,
    SGDConfig,
)


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are not frozen, tied ones once, in the model's order."""
    return [p for p in model.parameters() if p.requires_grad]


def weight_decay_groups(model: nn.Module, weight_decay: float, learning_rate: float) -> list[dict[str, Any]]:
    """Return the trainable parameters in two groups: matrices, with weight decay, and vectors, without."""
    matrices = [p for p in trainable(model) if p.dim() >= 2]
    vectors = [p for p in trainable(model) if p.dim() < 2]
    return [
        {"params": params, "weight_decay": decay, "peak_lr": learning_rate}
        for params, decay in ((matrices, weight_decay), (vectors, 0.0))
        if params
    ]


def set_lr(optimiser: torch.optim.Optimizer, factor: float) -> float:
    """Set every group's learning rate to `factor` times its peak; return the first group's, for the log."""
    for group in optimiser.param_groups:
        group["lr"] = group["peak_lr"] * factor
    return float(optimiser.param_groups[0]["lr"])


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
    index = {p: i for i, p in enumerate(p for group in optimiser.param_groups for p in group["params"])}
    parameters = dict(model.named_parameters())
    state: dict[int, dict[str, Tensor]] = {}
    for full_name, tensor in tensors.items():
        name, _, key = full_name.rpartition("/")
        parameter = parameters[name]
        is_moment = tensor.shape == parameter.shape  # other entries, such as the number of steps, are never sharded
        state.setdefault(index[parameter], {})[key] = shard_like(tensor, parameter) if is_moment else tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def adam(config: AdamConfig, model: nn.Module) -> torch.optim.Optimizer:
    """Adam over all trainable parameters."""
    return torch.optim.Adam(
        [{"params": trainable(model), "peak_lr": config.learning_rate}],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,  # measured: see tools/benchmarks/NOTES.md
    )


def adamw(config: AdamWConfig, model: nn.Module) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay of the matrices."""
    return _adamw(weight_decay_groups(model, config.weight_decay, config.learning_rate), config)


def _adamw(groups: list[dict[str, Any]], config: AdamWConfig | MuonConfig) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        groups, lr=config.learning_rate, betas=(config.beta1, config.beta2), eps=config.eps, fused=True
    )


def adadelta(config: AdadeltaConfig, model: nn.Module) -> torch.optim.Optimizer:
    """Adadelta over all trainable parameters."""
    groups = [{"params": trainable(model), "peak_lr": config.learning_rate}]
    return torch.optim.Adadelta(groups, lr=config.learning_rate, rho=config.rho, eps=config.eps)


def sgd(config: SGDConfig, model: nn.Module) -> torch.optim.Optimizer:
    """Stochastic gradient descent over all trainable parameters."""
    groups = [{"params": trainable(model), "peak_lr": config.learning_rate}]
    return torch.optim.SGD(groups, lr=config.learning_rate, momentum=config.momentum)


def adafactor(config: AdafactorConfig, model: nn.Module) -> torch.optim.Optimizer:
    """Adafactor with weight decay of the matrices."""
    return torch.optim.Adafactor(
        weight_decay_groups(model, config.weight_decay, config.learning_rate),
        lr=config.learning_rate,
        beta2_decay=-config.decay_rate,
        eps=(None, config.min_scale),
        d=config.clip_threshold,
    )


class Lion(torch.optim.Optimizer):
    """Lion optimiser. Chen et al. 2023, algorithm 2. https://arxiv.org/abs/2302.06675.

    c = beta1 m + (1 - beta1) g;  w <- w - lr (sign(c) + decay w);  m <- beta2 m + (1 - beta2) g. The state is one
    number per weight, m; Adam's is two.
    """

    def __init__(self, config: LionConfig, model: nn.Module) -> None:
        groups = weight_decay_groups(model, config.weight_decay, config.learning_rate)
        defaults = {"lr": config.learning_rate, "beta1": config.beta1, "beta2": config.beta2}
        super().__init__(groups, {**defaults, "weight_decay": config.weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient; `closure` is ignored."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            weights, gradients = [local_shard(p) for p in params], [local_shard(p.grad) for p in params]
            momenta = [local_shard(self.state[p].setdefault("momentum", torch.zeros_like(p))) for p in params]
            directions = torch._foreach_lerp(gradients, momenta, group["beta1"])
            torch._foreach_sign_(directions)
            torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(weights, directions, alpha=-group["lr"])
            torch._foreach_lerp_(momenta, gradients, 1 - group["beta2"])


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


def muon(config: MuonConfig, model: nn.Module) -> torch.optim.Optimizer:
    """Muon of the hidden matrices, and AdamW of all other weights.

    Hidden are the matrices of linear layers, except the output projection and those tied to an embedding.
    """
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    hidden: set[int] = set()
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and name != "output":
            hidden |= {id(p) for p in module.parameters(recurse=False) if p.dim() == 2 and id(p) not in embeddings}
    matrices = [p for p in trainable(model) if id(p) in hidden]
    groups = weight_decay_groups(model, config.weight_decay, config.learning_rate)
    for group in groups:
        group["params"] = [p for p in group["params"] if id(p) not in hidden]
    others = _adamw(groups, config)
    if not matrices:
        return others
    orthogonalised = torch.optim.Muon(
        [{"params": matrices, "peak_lr": config.learning_rate}],
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        momentum=config.momentum,
        ns_steps=config.ns_steps,
        adjust_lr_fn="match_rms_adamw",
    )
    return CombinedOptimizer([orthogonalised, others])
