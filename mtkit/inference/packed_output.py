"""Output projection in float32 with weights packed for oneDNN, for processors on which MKL is slow."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.hardware import CPUINFO, cpu_flags, cpu_vendor
from mtkit.inference.bf16 import EXPECTED_ROWS
from mtkit.layers.matmul import has_onednn
from mtkit.layers.projections import Projection
from mtkit.models.interface import OutputProjection, TranslationModel

MIN_WEIGHTS = 1 << 20  # a call of oneDNN's operator takes about 10 µs more than MKL's


class PackedOutput(nn.Module, OutputProjection):
    """A Projection, which is not changed, with a copy of its weights in the order in which oneDNN reads them.

    oneDNN's products then take a third (5 rows) to four fifths (128 rows) of MKL's time on AMD processors with AVX-512
    (measured: see tests/benchmarks/NOTES.md).
    """

    def __init__(self, of: Projection) -> None:
        super().__init__()
        self.weight, self.bias = of.weight.detach(), None if of.bias is None else of.bias.detach()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.contiguous(), EXPECTED_ROWS)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        if not x.numel():
            return F.linear(x, self.weight, self.bias)
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return y


def pack_output(model: TranslationModel) -> None:
    """Pack the output projection of a float32 model if it is large, and this processor gains by it."""
    output = model.output
    if type(output) is Projection and output.weight.numel() >= MIN_WEIGHTS and has_fast_packed_products():
        model.output = PackedOutput(output)  # type: ignore[assignment]


def has_fast_packed_products() -> bool:
    """Return whether oneDNN's packed products are faster than MKL's, which takes its AVX2 path on AMD processors."""
    return has_onednn() and cpu_vendor(CPUINFO) == "AuthenticAMD" and "avx512f" in cpu_flags(CPUINFO)
