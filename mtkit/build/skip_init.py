"""Building a model without drawing its first weights, which takes seconds for a large one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

META = torch.device("meta")


DRAWS = {Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_}


class Undrawn(TorchFunctionMode):
    """A block in which the weights of a model that is built are 0 where they would be drawn at random.

    On the device META they have shapes alone, and take neither time nor memory. What is computed when a model is made
    (frequencies, slopes) has its values, and is small.

    Args:
        device: where weights come to be.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Make memory that has no values yet, as all weights begin, of zeros, and leave it so."""
        if func in DRAWS:
            return next(iter((*args, *(kwargs or {}).values())))  # the tensor
        if func is torch.empty:
            return torch.zeros(*args, **{**(kwargs or {}), "device": self.device})
        if func is Tensor.new_empty:  # what an orthogonal matrix is made of
            return Tensor.new_zeros(*args, **kwargs or {})
        return func(*args, **kwargs or {})
