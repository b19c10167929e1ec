"""The embedding tables of both sides and the projection to the target vocabulary, tied or not."""

from __future__ import annotations

from typing import Literal, NamedTuple

from torch import nn

from mtkit.layers.projections import embedding, linear

Tying = Literal["all", "target", "none"]  # all: source, target, softmax; target: the last two


class Tables(NamedTuple):
    """Three matrices, some of them one and the same."""

    src: nn.Embedding
    tgt: nn.Embedding
    output: nn.Linear


def tied_tables(src_vocab: int, tgt_vocab: int, d_model: int, *, tied: Tying) -> Tables:
    """Tables [V, D] for vocabularies of these sizes. Press & Wolf 2017, https://arxiv.org/abs/1608.05859

    Raises:
        ValueError: everything is to be tied and the vocabularies differ.
    """
    if tied == "all" and src_vocab != tgt_vocab:
        raise ValueError(
            f"tied_embeddings: all needs a shared vocabulary, these have {src_vocab} and {tgt_vocab} pieces; "
            "set tied_embeddings: target or tokenizer.shared: true"
        )
    tgt = embedding(tgt_vocab, d_model)
    src = tgt if tied == "all" else embedding(src_vocab, d_model)
    output = linear(d_model, tgt_vocab, bias=False)
    if tied != "none":
        output.weight = tgt.weight
    return Tables(src, tgt, output)
