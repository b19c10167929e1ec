"""Gradient norm and relative update size of each module of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from mtkit.training.distributed.fsdp import total_norm


class GradientStats:
    """Statistics of every `log_every`-th update. They do not change the training; between two, they cost nothing.

    Args:
        log_every: updates between two measurements; 0 measures nothing.
    """

    def __init__(self, log_every: int) -> None:
        self.log_every = log_every
        self._by_module: dict[str, tuple[Tensor, Tensor]] = {}

    @contextmanager
    def measure(self, model: nn.Module, update: int) -> Iterator[None]:
        """Measure the optimiser step that runs within the block; the gradients must exist."""
        if not self.log_every or update % self.log_every:
            yield
            return
        modules = _parameters_by_module(model)
        gradients = {
            module: total_norm([p.grad for p in weights if p.grad is not None]) for module, weights in modules.items()
        }
        before = {module: [p.detach().clone() for p in weights] for module, weights in modules.items()}
        yield
        self._by_module = {
            module: (
                gradients[module],
                total_norm(_weight_changes(weights, before[module])) / total_norm(before[module]),
            )
            for module, weights in modules.items()
        }

    def read(self) -> Mapping[str, object]:
        """Return the last measurement once, then nothing.

        `modules` holds, by module, `grad_norm` and `update_ratio`, the norm of the weights' change over their norm.
        """
        measured, self._by_module = self._by_module, {}
        if not measured:
            return {}
        by_module = {
            module: {"grad_norm": float(gradient), "update_ratio": float(ratio)}
            for module, (gradient, ratio) in measured.items()
        }
        return {"modules": by_module}


def _parameters_by_module(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Return the trainable parameters by the name of the model's child module that holds them."""
    modules: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            modules.setdefault(name.partition(".")[0], []).append(parameter)
    return modules


def _weight_changes(after: Sequence[nn.Parameter], before: Sequence[Tensor]) -> list[Tensor]:
    return [new.detach() - old for new, old in zip(after, before, strict=True)]
