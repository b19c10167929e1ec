"""Projections of torch modules in the native library, for models that run as they are written."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mtkit.inference.native.library import native
from mtkit.inference.packing import PackedProjection, WeightType, check
from mtkit.inference.threads import run_in_parts
from mtkit.layers.positions.base import Position
from mtkit.layers.projections import Projection

TYPES: dict[torch.dtype, WeightType] = {torch.float32: "float32", torch.bfloat16: "bf16", torch.int8: "int8"}


class NativeLinear(nn.Module):
    """y = x W^T + b with packed weights: float32, bfloat16, or int8 with a scale for each row of x and of W."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        """Pack weights [D_out, D_in] and a bias [D_out]."""
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.weight = weight.detach().float().contiguous()  # [D_out, D_in], for code that looks at weights
        vector = None if bias is None else bias.detach().float().numpy()
        self.packed = PackedProjection.of(self.weight.numpy(), vector, TYPES[dtype])
        functions: Any = native().functions
        self.project = functions.mtkit_project

    def forward(self, x: Tensor) -> Tensor:
        """[..., D_in] -> [..., D_out], in the type of x."""
        flat = x.reshape(-1, self.in_features).float().contiguous()  # [N, D_in]
        y = flat.new_empty(flat.size(0), self.out_features)
        linear = ctypes.byref(self.packed.linear)

        def project(first: int, rows: int) -> None:
            check(self.project(linear, flat[first:].data_ptr(), rows, y[first:].data_ptr()))

        run_in_parts(project, flat.size(0), torch.get_num_threads())
        return y.view(*x.shape[:-1], self.out_features).to(x.dtype)


def projections(module: nn.Module) -> Iterator[tuple[nn.Module, str, Projection]]:
    """All projections below a module that are not in position encodings: the module above, the name, the projection."""
    for name, child in module.named_children():
        if type(child) is Projection:
            yield module, name, child
        elif not isinstance(child, Position):
            yield from projections(child)


def use_native_projections(model: nn.Module, dtype: torch.dtype) -> None:
    """Let all projections of a model compute in the native library, except those of tables in position encodings."""
    for parent, name, projection in list(projections(model)):
        setattr(parent, name, NativeLinear(projection.weight, projection.bias, dtype))
