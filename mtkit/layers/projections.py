"""Constructors of weight matrices: every trained matrix is in an `nn.Linear` or `nn.Embedding` made here."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import nn


def linear(d_in: int, d_out: int, bias: bool = True) -> nn.Linear:
    """Build a projection [..., d_in] -> [..., d_out] with Xavier-uniform weights and zero bias.

    Glorot & Bengio 2010, eq. 16. https://proceedings.mlr.press/v9/glorot10a.html
    """
    layer = nn.Linear(d_in, d_out, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def embedding(num_embeddings: int, dim: int) -> nn.Embedding:
    """Build a table [num_embeddings, dim] from N(0, 1/dim): rows times sqrt(dim) and tied logits have unit scale."""
    table = nn.Embedding(num_embeddings, dim)
    nn.init.normal_(table.weight, std=dim**-0.5)
    return table


PositiveWidth = Annotated[int, Field(gt=0, le=100_000)]  # of a vector; also numbers of heads. GPT-3 has 12,288
NumLayers = Annotated[int, Field(gt=0, le=1_000)]  # the deepest DeepNorm model, https://arxiv.org/abs/2203.00555
