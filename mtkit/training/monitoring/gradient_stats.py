"""How large gradients and steps are, for each part of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from mtkit.training.distributed.fsdp import total_norm


class Proportions:
    """Looks at some of the updates; nothing of the training changes, and between two looks nothing is done.

    Args:
        every: updates between two looks; 0 never looks.
    """

    def __init__(self, every: int) -> None:
        self.every = every
        self._by_part: dict[str, tuple[Tensor, Tensor]] = {}

    @contextmanager
    def measuring(self, model: nn.Module, update: int) -> Iterator[None]:
        """A block in which a gradient, still there, is applied to the model."""
        if not self.every or update % self.every:
            yield
            return
        parts = _parts(model)
        gradients = {
            part: total_norm([p.grad for p in weights if p.grad is not None]) for part, weights in parts.items()
        }
        before = {part: [p.detach().clone() for p in weights] for part, weights in parts.items()}
        yield
        self._by_part = {
            part: (gradients[part], total_norm(_steps(weights, before[part])) / total_norm(before[part]))
            for part, weights in parts.items()
        }

    def read(self) -> Mapping[str, object]:
        """What the last look found, once: by part the norm of the gradient and that of the step over the weights'."""
        found, self._by_part = self._by_part, {}
        if not found:
            return {}
        by_part = {
            part: {"grad_norm": float(gradient), "update_ratio": float(ratio)}
            for part, (gradient, ratio) in found.items()
        }
        return {"parts": by_part}


def _parts(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The trainable parameters by the module right below the model that has them."""
    parts: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parts.setdefault(name.partition(".")[0], []).append(parameter)
    return parts


def _steps(after: Sequence[nn.Parameter], before: Sequence[Tensor]) -> list[Tensor]:
    return [new.detach() - old for new, old in zip(after, before, strict=True)]
