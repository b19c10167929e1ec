"""Token embeddings and the output projection, tied or not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

from torch import Tensor, nn

from mtkit.layers.dropout import Dropout
from mtkit.layers.norms import apply_norm
from mtkit.layers.positions import Position
from mtkit.layers.projections import embedding, linear
from mtkit.models.capabilities import ONE_TABLE, TIED_OUTPUT, TieMode

# tensors with a row for each token of a vocabulary -> side of the vocabulary
VOCAB_TENSORS: Mapping[str, Literal["src", "tgt"]] = {
    "src_embedding.table.weight": "src",
    "tgt_embedding.table.weight": "tgt",
    "output.weight": "tgt",
    "output.bias": "tgt",
}


class TiedEmbeddings(NamedTuple):
    """Matrices with one row per token [V, D]. Two or three of them are the same tensor if they are tied."""

    src: nn.Embedding
    tgt: nn.Embedding
    output: nn.Linear


def build_embeddings(src_vocab: int, tgt_vocab: int, dim: int, *, tied: TieMode, bias: bool) -> TiedEmbeddings:
    """Build embeddings and output projection [V, dim]; only the latter may have a bias.

    Press & Wolf 2017. https://arxiv.org/abs/1608.05859

    Raises:
        ValueError: one table is for both sides, and their vocabularies differ.
    """
    if tied in ONE_TABLE and src_vocab != tgt_vocab:
        raise ValueError(
            f"tied_embeddings: {tied} needs a shared vocabulary, but the source has {src_vocab} tokens and the target "
            f"{tgt_vocab}; set tied_embeddings: target or tokenizer.shared: true"
        )
    tgt = embedding(tgt_vocab, dim)
    src = tgt if tied in ONE_TABLE else embedding(src_vocab, dim)
    output = linear(dim, tgt_vocab, bias=bias)
    if tied in TIED_OUTPUT:
        output.weight = tgt.weight
    return TiedEmbeddings(src, tgt, output)


class ScaledEmbedding(nn.Module):
    """Token embeddings of a recurrent model: scaled by sqrt(D) to unit variance, then dropout; no positions."""

    def __init__(self, table: nn.Embedding, dropout: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.dropout = dropout

    def forward(self, ids: Tensor) -> Tensor:
        """ids [...] -> [..., D]."""
        return self.dropout(self.table(ids) * math.sqrt(self.table.embedding_dim))  # type: ignore[no-any-return]


class Embedding(nn.Module):
    """Scaled token embeddings plus positions, then dropout. Vaswani et al. 2017, sec. 3.4, 3.5 and 5.4.

    The factor is sqrt(D), unless `scale` is another one. BART has a norm before the dropout.
    """

    def __init__(
        self,
        table: nn.Embedding,
        position: Position,
        dropout: float,
        *,
        scale: float | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.table = table
        self.position = position
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(table.embedding_dim) if scale is None else scale
        self.norm = norm

    def forward(self, ids: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """ids and pos [B, T], padding where real [B, T] is False -> [B, T, D]."""
        x = self.position.embed(self.table(ids) * self.scale, pos, real)
        return self.dropout(x if self.norm is None else apply_norm(self.norm, x, real))
