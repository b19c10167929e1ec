"""Layer norm and RMS norm."""

import math

import torch
from torch import nn

from mtkit.layers.config import RMSNormConfig

D = 8


def test_rms_norm_is_the_papers_equation():
    norm = RMSNormConfig(epsilon=1e-30).build(D).double()
    nn.init.normal_(norm.weight)
    x = torch.randn(3, D, dtype=torch.float64)
    for row, output in zip(x, norm(x), strict=True):
        rms = math.sqrt(sum(float(value) ** 2 for value in row) / D)
        assert torch.allclose(output, row / rms * norm.weight)


def test_rms_norm_keeps_the_type_and_computes_in_float32():
    x = torch.randn(4, D).mul(300).to(torch.bfloat16)
    output = RMSNormConfig().build(D)(x)
    assert output.dtype == torch.bfloat16
    assert torch.allclose(output.float(), RMSNormConfig().build(D)(x.float()), rtol=1e-2)
