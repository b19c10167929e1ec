"""A projection in the native library, also for models whose layers the library lacks."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor, nn

from mtkit.inference.native.library import native
from mtkit.inference.native.packing import PackedLinear, address, check
from mtkit.inference.native.threads import run_in_parts


class NativeLinear(nn.Module):
    """y = x W^T + b with packed weights: float32, bfloat16, or int8 with a scale for each row of x and of W."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        """Pack weights [D_out, D_in] and a bias [D_out]."""
        super().__init__()
        self.packed = PackedLinear.of(weight, bias, dtype)
        self.in_features, self.out_features = weight.size(1), weight.size(0)
        self.functions: Any = native().functions

    def forward(self, x: Tensor) -> Tensor:
        """[..., D_in] -> [..., D_out], in the type of x."""
        flat = x.reshape(-1, self.in_features).float().contiguous()  # [N, D_in]
        y = flat.new_empty(flat.size(0), self.out_features)
        linear = ctypes.byref(self.packed.linear)

        def project(first: int, rows: int) -> None:
            check(self.functions.mtkit_project(linear, address(flat[first:]), rows, address(y[first:])))

        run_in_parts(project, flat.size(0))
        return y.view(*x.shape[:-1], self.out_features).to(x.dtype)
