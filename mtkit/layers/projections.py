"""Weight matrices: every trained matrix is in a `Projection` or an `nn.Embedding` that is made here."""

from __future__ import annotations

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


def remove_biases(module: nn.Module) -> None:
    """Remove the biases of all linear layers in a module; norms keep theirs."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            layer.bias = None  # type: ignore[assignment]


def embedding(num_embeddings: int, dim: int) -> nn.Embedding:
    """Build a table [num_embeddings, dim] from N(0, 1/dim): rows times sqrt(dim) and tied logits have unit scale."""
    table = nn.Embedding(num_embeddings, dim)
    nn.init.normal_(table.weight, std=dim**-0.5)
    return table
