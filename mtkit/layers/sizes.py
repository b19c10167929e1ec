"""Sizes of layers: ranges of keys, the heads of attention with their reshapes, and the layer of the alignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from mtkit.config import Limits

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Heads:
    """Sizes of multi-head attention: H query heads and G key/value heads; whether their products are scaled.

    Attributes:
        num_heads: H.
        num_kv_heads: G.
        head_dim: K, width of queries and keys; the paper's d_k.
        value_head_dim: width of values, the paper's d_v; None: K, which shapes elsewhere stand for both.
        scaled: products of queries and keys are divided by sqrt(K).
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_head_dim: int | None = None
    scaled: bool = True

    @property
    def value_dim(self) -> int:
        """Width of the values of a head."""
        return self.head_dim if self.value_head_dim is None else self.value_head_dim

    @property
    def query_key_width(self) -> int:
        """Width of the queries of all heads, and of the keys of all groups: (H + G)·K."""
        return (self.num_heads + self.num_kv_heads) * self.head_dim

    @property
    def value_width(self) -> int:
        """Width of the values of all groups."""
        return self.num_kv_heads * self.value_dim


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """[B, T, H·K] -> [B, H, T, K]."""
    batch, length, width = x.shape
    return x.view(batch, length, num_heads, width // num_heads).transpose(1, 2)


def alignment_layer(num_layers: int) -> int:
    """The decoder layer whose attention is closest to a word alignment: the last but one (Garg et al. 2019, sec. 5)."""
    return max(0, num_layers - 2)


PositiveWidth = Annotated[int, Limits(gt=0, le=100_000)]  # of a vector; also numbers of heads. GPT-3 has 12,288
Index = Annotated[int, Limits(ge=0, le=100_000)]  # from 0, such as of a layer or head
NumLayers = Annotated[int, Limits(gt=0, le=1_000)]  # the deepest DeepNorm model, https://arxiv.org/abs/2203.00555
QKNorm = Literal["none", "layer", "rms"]  # norm of queries and keys
RoutingKind = Literal["switch", "top2"]  # of tokens to experts
