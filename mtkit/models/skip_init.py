"""Building of models without random initialisation, or without weights at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

ModuleT = TypeVar("ModuleT", bound=nn.Module)
META_DEVICE = torch.device("meta")
INIT_OPS = {Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_}


class SkipInit(TorchFunctionMode):
    """Context manager in which models are built with zeros instead of random weights (like `torch.nn.utils.skip_init`).

    On META_DEVICE weights have shapes only and take neither time nor memory. Constants that are computed when a model
    is built (frequencies, slopes) keep their values.

    Args:
        device: device of the weights.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Allocate zeros where uninitialised memory is requested, and skip random initialisation."""
        if func in INIT_OPS:
            return next(iter((*args, *(kwargs or {}).values())))  # the tensor
        if func is torch.empty:
            return torch.zeros(*args, **{**(kwargs or {}), "device": self.device})
        if func is Tensor.new_empty:  # nn.init.orthogonal_ allocates with it
            return Tensor.new_zeros(*args, **kwargs or {})
        return func(*args, **kwargs or {})


def build_on_meta(build: Callable[[], ModuleT]) -> ModuleT:
    """Build a module whose weights have shapes only, also those that it makes of constants such as `torch.ones`."""
    with SkipInit(META_DEVICE):
        model = build()
    on_meta: dict[nn.Parameter, nn.Parameter] = {}  # tied weights stay tied
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            if parameter.device != META_DEVICE:
                moved = nn.Parameter(parameter.detach().to(META_DEVICE), requires_grad=parameter.requires_grad)
                setattr(module, name, on_meta.setdefault(parameter, moved))
    return model
