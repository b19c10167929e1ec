"""Projections with bfloat16 weights between float32 activations, for translation on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.layers.matmul import has_onednn
from mtkit.layers.positions.base import Position
from mtkit.layers.projections import Projection
from mtkit.models.interface import OutputProjection, TranslationModel

# With few rows, smaller projections lose more time in conversions than bf16 saves. With many rows they would gain, but
# a choice by the number of rows makes translations depend on the batch (measured: see tests/benchmarks/NOTES.md).
MIN_WEIGHTS = 1 << 17
EXPECTED_ROWS = 128  # of a product; the packed weights serve other numbers of rows as well


@cache
def has_packed_bf16() -> bool:
    """Return whether oneDNN has bf16 products on this processor: on x86 they need AVX-512 or AVX-NE-CONVERT."""
    if not has_onednn():
        return False
    try:
        torch.ops.mkldnn._reorder_linear_weight(torch.zeros(1, 1, dtype=torch.bfloat16), EXPECTED_ROWS)
    except RuntimeError:
        return False
    return True


class Bf16Linear(nn.Module, OutputProjection):
    """y = x W^T + b with x, W and b rounded to bf16, products summed in float32, and y rounded to bf16.

    Everything between projections stays in float32: conversions of small tensors take longer than the products gain.
    """

    weight_bf16: Tensor  # [D_out, D_in]
    bias_bf16: Tensor | None  # [D_out]

    def __init__(self, weight_bf16: Tensor, bias_bf16: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight_bf16", weight_bf16)
        self.register_buffer("bias_bf16", bias_bf16)
        is_packed = weight_bf16.numel() > 0 and has_packed_bf16()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight_bf16, EXPECTED_ROWS) if is_packed else None

    @classmethod
    def of(cls, layer: nn.Linear) -> Self:
        """The same projection as a layer's, which is not changed."""
        bias = None if layer.bias is None else layer.bias.detach().bfloat16()
        return cls(layer.weight.detach().bfloat16().contiguous(), bias)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D_in] -> [..., D_out], of the type of x."""
        return self.rounded(x).to(x.dtype)

    def rounded(self, x: Tensor) -> Tensor:
        """The same in bf16."""
        if self.packed is None or not x.numel():
            return F.linear(x.bfloat16(), self.weight_bf16, self.bias_bf16)
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x.bfloat16(), self.packed, self.bias_bf16, "none", [], "")
        return y


class Bf16Output(Bf16Linear):
    """Output projection whose logits stay in bf16: search converts a few rows at a time, which fit into the cache."""

    def forward(self, x: Tensor) -> Tensor:
        """Logits [..., V] in bf16."""
        return self.rounded(x)


def use_bf16_projections(model: TranslationModel) -> None:
    """Let the projections of a model compute in bf16, except small ones and those of tables in position encodings."""
    for parent, name, projection in list(projections(model)):
        if projection.weight.numel() >= MIN_WEIGHTS:
            kind = Bf16Output if projection is model.output else Bf16Linear
            setattr(parent, name, kind.of(projection))


def projections(module: nn.Module) -> Iterator[tuple[nn.Module, str, Projection]]:
    """All projections below a module that are not in position encodings: the module above, the name, the projection."""
    for name, child in module.named_children():
        if type(child) is Projection:
            yield module, name, child
        elif not isinstance(child, Position):
            yield from projections(child)
