"""Adam, AdamW and SGD of torch; parameter groups and optimiser state, which all kinds of optimisers share.

Every parameter group stores its peak learning rate, which the schedule scales.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.training.distributed.fsdp import shard_like

PositiveFloat = Annotated[float, Field(gt=0)]


Beta = Annotated[float, Field(ge=0, lt=1)]


NonNegative = Annotated[float, Field(ge=0)]


class OptimiserTraits:
    """Capabilities of an optimiser's configuration; a kind sets `bytes_per_weight` and overrides what differs."""

    bytes_per_weight: ClassVar[int]  # bytes of optimiser state per weight, at most
    needs_whole_matrices: ClassVar[bool] = False  # an update of a row depends on other rows, so FSDP cannot shard it


@dataclass(frozen=True, kw_only=True)
class AdamConfig(OptimiserTraits):
    """Adam (Kingma & Ba 2015, algorithm 1). https://arxiv.org/abs/1412.6980."""

    bytes_per_weight: ClassVar[int] = 8

    kind: Literal["adam"] = "adam"
    learning_rate: PositiveFloat = 2e-3  # at the schedule's peak; best for model widths of 256 on Multi30k
    beta1: Beta = 0.9  # Vaswani et al. 2017, sec. 5.3
    beta2: Beta = 0.98  # Vaswani et al. 2017, sec. 5.3: a shorter horizon than that of 0.999 follows the warm-up
    eps: PositiveFloat = 1e-9  # Vaswani et al. 2017, sec. 5.3

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`."""
        return torch.optim.Adam(
            with_peak_lr([{"params": trainable(model)}], self.learning_rate),
            lr=self.learning_rate,
            betas=(self.beta1, self.beta2),
            eps=self.eps,
            fused=True,  # measured: see tests/benchmarks/NOTES.md
        )


@dataclass(frozen=True, kw_only=True)
class AdamWConfig(OptimiserTraits):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2). https://arxiv.org/abs/1711.05101.

    Only matrices decay: the scale of a norm's gain or of a bias cannot grow without limit.
    """

    bytes_per_weight: ClassVar[int] = 8

    kind: Literal["adamw"] = "adamw"
    learning_rate: PositiveFloat = 2e-3  # at the schedule's peak
    beta1: Beta = 0.9  # as Adam
    beta2: Beta = 0.98  # as Adam
    eps: PositiveFloat = 1e-9  # as Adam
    weight_decay: NonNegative = 0.01  # times the learning rate, per update

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`, in two groups."""
        return torch.optim.AdamW(
            weight_decay_groups(model, self.weight_decay, self.learning_rate),
            lr=self.learning_rate,
            betas=(self.beta1, self.beta2),
            eps=self.eps,
            fused=True,
        )


@dataclass(frozen=True, kw_only=True)
class SGDConfig(OptimiserTraits):
    """Stochastic gradient descent with momentum; Sutskever et al. 2014 trained without momentum."""

    kind: Literal["sgd"] = "sgd"
    learning_rate: PositiveFloat = 0.7  # Sutskever et al. 2014, sec. 3.4
    momentum: Beta = 0.0  # Sutskever et al. 2014, sec. 3.4

    @property
    def bytes_per_weight(self) -> int:  # type: ignore[override]
        """Bytes of optimiser state per weight."""
        return 4 if self.momentum else 0

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser over all trainable parameters of `model`."""
        return torch.optim.SGD(
            with_peak_lr([{"params": trainable(model)}], self.learning_rate),
            lr=self.learning_rate,
            momentum=self.momentum,
        )


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are not frozen, tied ones once, in the model's order."""
    return [p for p in model.parameters() if p.requires_grad]


def with_peak_lr(groups: list[dict[str, Any]], learning_rate: float) -> list[dict[str, Any]]:
    """Set `peak_lr` of the groups that have none."""
    return [{"peak_lr": learning_rate, **group} for group in groups]


def weight_decay_groups(model: nn.Module, weight_decay: float, learning_rate: float) -> list[dict[str, Any]]:
    """Return the trainable parameters in two groups: matrices, with weight decay, and vectors, without."""
    matrices = [p for p in trainable(model) if p.dim() >= 2]
    vectors = [p for p in trainable(model) if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return with_peak_lr([group for group in groups if group["params"]], learning_rate)


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
