"""The only makers of weight matrices: every one of them sits in an `nn.Linear` or an `nn.Embedding`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import nn


def linear(d_in: int, d_out: int, bias: bool = True) -> nn.Linear:
    """A projection [..., d_in] -> [..., d_out], Xavier-uniform weights, bias zero.

    Glorot & Bengio 2010, eq. 16. https://proceedings.mlr.press/v9/glorot10a.html
    """
    layer = nn.Linear(d_in, d_out, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def embedding(num: int, dim: int) -> nn.Embedding:
    """A table [num, dim] from N(0, 1/dim): a row times sqrt(dim) and a tied softmax both begin at unit scale."""
    table = nn.Embedding(num, dim)
    nn.init.normal_(table.weight, std=dim**-0.5)
    return table


Width = Annotated[int, Field(gt=0, le=100_000)]  # numbers of a vector, or vectors side by side; GPT-3 has 12,288


Layers = Annotated[int, Field(gt=0, le=1_000)]  # as many as DeepNorm's deepest, https://arxiv.org/abs/2203.00555
