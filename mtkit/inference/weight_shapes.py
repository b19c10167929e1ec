"""Weights of the Transformers that the fast road takes (see served.py): names, types and shapes, without torch.

The library reads weights by pointers, so that a file is compared with these before it is packed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mtkit.layers.norms.config import PreNormConfig
from mtkit.layers.positions.absolute_config import LearnedConfig
from mtkit.models.transformer.sharing import sharing_order

Shape = tuple[int, ...]


def transformer_weights(config: Any, src_vocab: int, tgt_vocab: int) -> dict[str, tuple[str, Shape]]:
    """Type and shape of each weight of a TransformerConfig's model, as its model folder names them.

    Raises:
        ValueError: tied_embeddings is "all" and the vocabularies differ.
    """
    if config.tied_embeddings == "all" and src_vocab != tgt_vocab:
        raise ValueError(f"tied_embeddings all: {src_vocab} source tokens and {tgt_vocab} target tokens")
    shapes = {
        **dict(_embeddings(config, src_vocab, tgt_vocab)),
        **dict(_stack(config, "encoder")),
        **dict(_stack(config, "decoder")),
    }
    return {name: ("F32", shape) for name, shape in shapes.items()}


def _embeddings(config: Any, src_vocab: int, tgt_vocab: int) -> Iterator[tuple[str, Shape]]:
    width = config.d_model
    yield "src_embedding.table.weight", (src_vocab, width)
    if config.tied_embeddings != "all":
        yield "tgt_embedding.table.weight", (tgt_vocab, width)
    if config.tied_embeddings == "none":
        yield "output.weight", (tgt_vocab, width)
    if config.output_bias:
        yield "output.bias", (tgt_vocab,)
    for side, positions in (("src", config.encoder_positions), ("tgt", config.decoder_positions)):
        if isinstance(positions, LearnedConfig):
            yield f"{side}_embedding.position.table.weight", (positions.max_length, width)
        if config.embedding_norm:
            yield from _norm(config, f"{side}_embedding.norm")


def _stack(config: Any, side: str) -> Iterator[tuple[str, Shape]]:
    is_decoder = side == "decoder"
    count = config.decoder_layers if is_decoder else config.encoder_layers
    order = sharing_order(f"{side}_sharing", getattr(config, f"{side}_sharing"), count)
    heads, width, head_dim = config.head_counts(), config.d_model, config.heads.head_dim
    for index in range(max(order) + 1):
        layer = f"{side}.{index}"
        inner = (heads[f"{side}_heads"].of_layer(index) or config.num_heads) * head_dim
        yield from _projection(config, f"{layer}.attention.query_key_value", 3 * inner, width)
        yield from _projection(config, f"{layer}.attention.out", width, inner)
        if is_decoder:
            inner = (heads["cross_heads"].of_layer(index) or config.num_heads) * head_dim
            yield from _projection(config, f"{layer}.cross_attention.query", inner, width)
            yield from _projection(config, f"{layer}.cross_attention.key_value", 2 * inner, width)
            yield from _projection(config, f"{layer}.cross_attention.out", width, inner)
            yield from _norm(config, f"{layer}.cross_attention_residual.norm")
        yield from _projection(config, f"{layer}.feed_forward.inner", config.d_ff, width)
        yield from _projection(config, f"{layer}.feed_forward.outer", width, config.d_ff)
        yield from _norm(config, f"{layer}.attention_residual.norm")
        yield from _norm(config, f"{layer}.feed_forward_residual.norm")
    if isinstance(config.residual, PreNormConfig):
        yield from _norm(config, f"{side}_norm")


def _projection(config: Any, name: str, outputs: int, inputs: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (outputs, inputs)
    if config.bias:
        yield f"{name}.bias", (outputs,)


def _norm(config: Any, name: str) -> Iterator[tuple[str, Shape]]:
    kind = config.residual.norm.kind
    if kind != "none":
        yield f"{name}.weight", (config.d_model,)
    if kind == "layer":
        yield f"{name}.bias", (config.d_model,)
