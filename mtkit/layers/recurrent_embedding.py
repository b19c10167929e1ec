"""Embeddings of recurrent models, and which matrices they share with each other and with the output."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from torch import Tensor, nn

from mtkit.layers.projections import embedding, linear

Tying = Literal["all", "target", "none"]


class RecurrentEmbedding(nn.Module):
    """Token embeddings at unit scale, then dropout; order is the recurrence's business."""

    def __init__(self, table: nn.Embedding, dropout: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.dropout = dropout

    def forward(self, ids: Tensor) -> Tensor:
        """ids [...] -> [..., D]."""
        return self.dropout(self.table(ids) * math.sqrt(self.table.embedding_dim))  # type: ignore[no-any-return]


class Tables(NamedTuple):
    """The three matrices of a model that have one row per piece."""

    src: nn.Embedding
    tgt: nn.Embedding
    output: nn.Linear


def tables(src_vocab: int, tgt_vocab: int, *, dim: int, tied: Tying) -> Tables:
    """Embeddings and output projection of width `dim`; `target` ties the last two (Press & Wolf 2017), `all` all three.

    Raises:
        ValueError: `tied` is "all" and the vocabularies differ.
    """
    if tied == "all" and src_vocab != tgt_vocab:
        raise ValueError(
            f"tied_embeddings: all needs a shared vocabulary, these have {src_vocab} and {tgt_vocab} pieces; "
            "set tied_embeddings: target or tokenizer.shared: true"
        )
    tgt = embedding(tgt_vocab, dim)
    src = tgt if tied == "all" else embedding(src_vocab, dim)
    output = linear(dim, tgt_vocab)
    if tied != "none":
        output.weight = tgt.weight
    return Tables(src, tgt, output)
