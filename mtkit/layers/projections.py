"""Weight matrices: every trained matrix is in a `Projection` or an `nn.Embedding` that is made here."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from mtkit.layers import matmul


class Projection(nn.Linear):
    """nn.Linear, computed by the fastest library of this processor (see matmul.py)."""

    def forward(self, input: Tensor) -> Tensor:
        """[..., d_in] -> [..., d_out]."""
        return matmul.affine(input, self.weight, self.bias)


def linear(d_in: int, d_out: int, bias: bool = True) -> Projection:
    """Build a projection [..., d_in] -> [..., d_out] with Xavier-uniform weights and zero bias.

    Glorot & Bengio 2010, eq. 16. https://proceedings.mlr.press/v9/glorot10a.html
    """
    layer = Projection(d_in, d_out, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def embedding(num_embeddings: int, dim: int) -> nn.Embedding:
    """Build a table [num_embeddings, dim] from N(0, 1/dim): rows times sqrt(dim) and tied logits have unit scale."""
    table = nn.Embedding(num_embeddings, dim)
    nn.init.normal_(table.weight, std=dim**-0.5)
    return table


DOWN, UP, SCALE = ".lora_A.weight", ".lora_B.weight", ".lora_scale"  # ends of the names of an update's tensors


class LowRankProjection(Projection):
    """y = W x + b + s·B A x with a frozen W, A [r, d_in] and B [d_out, r].

    Hu et al. 2022, sec. 4.1, https://arxiv.org/abs/2106.09685 . B starts from zeros, so that y is at first what it was.

    Args:
        of: the projection; its weights are shared.
        rank: r.
        scale: s, alpha / r in the paper.
    """

    def __init__(self, of: nn.Linear, rank: int, scale: float) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = of.in_features, of.out_features
        self.weight, self.bias = of.weight, of.bias
        self.lora_A = Projection(of.in_features, rank, bias=False)
        self.lora_B = Projection(rank, of.out_features, bias=False)
        nn.init.kaiming_uniform_(self.lora_A.weight, a=math.sqrt(5))
        nn.init.zeros_(self.lora_B.weight)
        self.register_buffer("lora_scale", torch.tensor(scale))

    def forward(self, input: Tensor) -> Tensor:
        """[..., d_in] -> [..., d_out]."""
        update: Tensor = self.lora_scale * self.lora_B(self.lora_A(input))
        return super().forward(input) + update


def is_low_rank(name: str) -> bool:
    """Return whether a tensor of this name belongs to an update of low rank."""
    return name.endswith((DOWN, UP, SCALE))


def merge_low_rank(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights with their updates added, W + s·B A, and without the tensors of these."""
    merged = {name: tensor for name, tensor in tensors.items() if not is_low_rank(name)}
    for name in (name.removesuffix(DOWN) for name in tensors if name.endswith(DOWN)):
        update = tensors[name + UP].float() @ tensors[name + DOWN].float()
        merged[f"{name}.weight"] = merged[f"{name}.weight"] + tensors[name + SCALE] * update
    return merged
