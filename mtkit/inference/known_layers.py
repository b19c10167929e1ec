"""Layers that rewrites know, and the comparison of a rewritten model with the one as written."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from mtkit.corpus.order.batch import Source
from mtkit.inference.absorbed_cross_attention import AbsorbedCrossAttention
from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.attention.masks import Pattern, causal, full
from mtkit.layers.attention.multi_head import SelfAttention
from mtkit.layers.attention.softmax import DotProductAttention, SoftmaxAttention
from mtkit.layers.feed_forward.dense import FeedForward
from mtkit.layers.heads import Heads
from mtkit.layers.norms.norm import RMSNorm
from mtkit.layers.norms.residual import PostNorm, PreNorm
from mtkit.layers.positions.base import Position
from mtkit.layers.positions.rope import RoPE
from mtkit.models.transformer.layers import DecoderLayer, EncoderLayer
from mtkit.models.transformer.model import Transformer

TOLERANCE = 1e-3  # of logits, relative to the largest; see absorbed_cross_attention.py


def is_known_decoder_layer(layer: Any) -> bool:
    """Return whether a layer consists of causal self-attention, cross-attention and a feed-forward layer."""
    return (
        type(layer) is DecoderLayer
        and has_known_self_attention(layer.attention, causal)
        and type(layer.cross_attention) in (CrossAttention, AbsorbedCrossAttention)
        and type(layer.cross_attention.dot_product) is DotProductAttention
        and type(layer.cross_attention.query_norm) is nn.Identity
        and type(layer.cross_attention.dot_product.position) is Position
        and has_known_heads(layer.cross_attention)
        and has_known_residuals(layer)
        and is_known_residual(layer.cross_attention_residual)
    )


def is_known_encoder_layer(layer: Any) -> bool:
    """Return whether a layer consists of self-attention to all tokens and a feed-forward layer."""
    return (
        type(layer) is EncoderLayer and has_known_self_attention(layer.attention, full) and has_known_residuals(layer)
    )


def has_known_residuals(layer: Any) -> bool:
    """Return whether a layer has a feed-forward layer, and the residual connections that rewrites know."""
    return (
        type(layer.feed_forward) is FeedForward
        and is_known_residual(layer.attention_residual)
        and is_known_residual(layer.feed_forward_residual)
    )


def is_known_residual(residual: Any) -> bool:
    """Return whether a residual connection is pre-norm or post-norm, with a norm of one token."""
    return type(residual) in (PreNorm, PostNorm) and type(residual.norm) in (nn.LayerNorm, RMSNorm, nn.Identity)


def has_known_self_attention(attention: Any, pattern: Pattern) -> bool:
    """Return whether self-attention is that of the paper with this pattern, without positions or with RoPE."""
    return (
        type(attention) is SelfAttention
        and type(attention.kernel) is SoftmaxAttention
        and attention.kernel.pattern is pattern
        and type(attention.kernel.dot_product) is DotProductAttention
        and type(attention.kernel.dot_product.position) in (Position, RoPE)
        and type(attention.position) in (Position, RoPE)
        and not attention.has_norms
        and has_known_heads(attention)
    )


def has_known_heads(attention: Any) -> bool:
    """Return whether every query head has keys and values of its own, all of one width; their number may differ."""
    heads: Heads = attention.heads
    return heads.num_heads == heads.num_kv_heads and heads.value_dim == heads.head_dim


def share_rotations(layers: list[Any]) -> bool:
    """Return whether the rotation of queries and keys is the same in all layers."""
    positions = {layer.attention.position for layer in layers}
    return len(positions) == 1 or all(type(each) is Position for each in positions)


@torch.inference_mode()
def agree(written: Transformer, rewritten: Transformer) -> bool:
    """Return whether both compute the same logits for a small input, with one hypothesis and with two."""
    generator = torch.Generator().manual_seed(0)  # leaves the global generator as it is
    vocab = min(written.src_embedding.table.num_embeddings, written.tgt_embedding.table.num_embeddings)
    ids = torch.randint(vocab, (2, 6), generator=generator)
    source = Source(ids[:, :3], torch.tensor([[True, True, True], [True, True, False]]), torch.arange(3).expand(2, 3))
    logits = []
    for model in (written, rewritten):
        state = model.start(source)
        for t in (3, 4):
            step = model.step(ids[:, t], state)
            state = step.state
            logits.append(step.logits())
        state = state.select_rows(torch.tensor([0, 0, 1, 1]))
        for t in (4, 5):
            step = model.step(ids[:, t].repeat_interleave(2), state)
            state = step.state.select_rows(torch.tensor([1, 0, 3, 3]))
            logits.append(step.logits())
    expected, found = (torch.cat(each) for each in (logits[:4], logits[4:]))
    return bool((found - expected).abs().max() <= TOLERANCE * float(expected.abs().max()))
