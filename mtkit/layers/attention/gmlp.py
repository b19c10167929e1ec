"""gMLP: a replacement of encoder self-attention by a matrix product along the sentence, which gates its input."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.errors import DataError
from mtkit.layers.attention.kernel import TokenMixer
from mtkit.layers.cache.state import BatchedState, EmptyState
from mtkit.layers.projections import embedding, linear

SPATIAL_INIT_STD = 1e-3  # "near-zero values" (sec. 2.1): with a bias of 1 the gate then begins as the identity


class GatedMLP(TokenMixer):
    """y = V s(GELU(U x)) with the spatial gating unit s([z1; z2]) = z1 * (W norm(z2) + b), W [n, n] over positions.

    Liu et al. 2021, eq. 1 to 4. https://arxiv.org/abs/2105.08050 The sum over positions leaves out padding, and W and b
    are indexed by position, so that neither padding nor other sentences change the result. The paper's block replaces
    attention and feed-forward together; here it replaces self-attention, and the layer keeps its feed-forward.

    Args:
        d_model: D.
        d_inner: E, width of z; z1 and z2 have half of it.
        max_length: n.
        toeplitz: W[i, j] depends on i - j only, so that the gate does not depend on absolute positions except by b.
    """

    def __init__(self, d_model: int, d_inner: int, *, max_length: int, toeplitz: bool) -> None:
        super().__init__()
        self.max_length = max_length
        self.inner = linear(d_model, d_inner)  # U
        self.norm = nn.LayerNorm(d_inner // 2)
        self.spatial = embedding(2 * max_length - 1, 1) if toeplitz else embedding(max_length, max_length)  # W
        self.spatial_bias = nn.Parameter(torch.ones(max_length))  # b
        self.outer = linear(d_inner // 2, d_model)  # V
        nn.init.normal_(self.spatial.weight, std=SPATIAL_INIT_STD)

    def value_path_weights(self) -> list[Tensor]:
        """See Sublayer."""
        return [self.inner.weight, self.outer.weight]

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: BatchedState | None = None
    ) -> tuple[Tensor, BatchedState]:
        """See TokenMixer.

        Raises:
            DataError: a position is beyond W.
            ValueError: there is a past.
        """
        if past is not None:
            raise ValueError("gMLP processes whole sentences; it cannot decode step by step")
        length = int(pos.max()) + 1 if pos.numel() else 0  # S'
        if length > self.max_length:
            raise DataError(
                f"a sentence of {length} tokens is longer than the {self.max_length} positions of gMLP; raise "
                "max_length of encoder_attention, or use another kind"
            )
        z1, z2 = F.gelu(self.inner(x)).chunk(2, dim=-1)  # [B, S, E/2]
        z2 = self.norm(z2).to(x.dtype)
        if real is not None:
            z2 = z2 * real.unsqueeze(-1).to(z2.dtype)
        index = pos.unsqueeze(-1).expand_as(z2)  # [B, S, E/2]
        by_position = z2.new_zeros(x.size(0), length, z2.size(-1)).scatter_add(1, index, z2)  # [B, S', E/2]
        gate = self._spatial_weight(length).to(z2.dtype) @ by_position  # [B, S', E/2]
        gate = gate + self.spatial_bias[:length, None].to(gate.dtype)
        return self.outer(z1 * gate.gather(1, index).to(z1.dtype)), EmptyState()

    def _spatial_weight(self, length: int) -> Tensor:
        """W of the first positions, [S', S']."""
        if self.spatial.embedding_dim > 1:
            return self.spatial.weight[:length, :length]
        row = torch.arange(length, device=self.spatial.weight.device)
        return self.spatial.weight[row.unsqueeze(1) - row + self.max_length - 1].squeeze(-1)
