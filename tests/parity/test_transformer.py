"""Layers of the Transformer against those of torch, with the same weights."""

import pytest
import torch
from torch import Tensor, nn

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.attention import CrossAttention, Heads, SelfAttention
from mtkit.layers.cache import KVCache
from mtkit.layers.config import PostNormConfig, PreNormConfig
from mtkit.layers.norms import PostNorm
from mtkit.layers.positions import Position
from mtkit.layers.softmax import DotProductAttention, causal, full
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.layers import DecoderLayer, EncoderLayer
from mtkit.models.transformer.model import Transformer
from tests.toy.attention import self_attention

D, H, FF, V, B, S, T = 16, 4, 24, 30, 3, 7, 5


def relative_error(found: Tensor, truth: Tensor) -> float:
    return float((found - truth).detach().abs().max() / truth.detach().abs().max())


def ragged(batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Mask [B, length] of the real tokens of sentences of different lengths, and their positions."""
    ends = torch.arange(length, length - 2 * batch, -2).clamp(min=1)
    pos = torch.arange(length).expand(batch, -1)
    return pos < ends.unsqueeze(1), pos


def copy_self(ours: SelfAttention, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.data.copy_(ours.query_key_value.weight)
    theirs.in_proj_bias.data.copy_(ours.query_key_value.bias)
    theirs.out_proj.load_state_dict(ours.out.state_dict())


def copy_cross(ours: CrossAttention, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.data.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
    theirs.in_proj_bias.data.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())


def shake(module: nn.Module) -> None:
    """Change every parameter, biases and norms too, so that none has its neutral initial value."""
    for p in module.parameters():
        p.data.add_(0.1 * torch.randn_like(p))


@pytest.mark.parametrize("pattern", [full, causal])
def test_self_attention_equals_torch(pattern):
    ours = self_attention(D, Heads(H, H, D // H), causal=pattern is causal)
    theirs = nn.MultiheadAttention(D, H, batch_first=True)
    shake(ours)
    copy_self(ours, theirs)
    x, (real, pos) = torch.randn(B, S, D), ragged(B, S)
    hidden = torch.triu(torch.ones(S, S, dtype=torch.bool), 1) if pattern is causal else None
    truth, _ = theirs(x, x, x, key_padding_mask=~real, attn_mask=hidden)
    found, _ = ours(x, pos, real=real)
    assert relative_error(found[real], truth[real]) < 1e-5


def test_grouped_heads_equal_torchs_fused_attention():
    attention = DotProductAttention(Position(), 0.0)
    q, k, v = torch.randn(B, H, T, 4), torch.randn(B, 2, S, 4), torch.randn(B, 2, S, 4)
    real, pos = ragged(B, S)
    q_pos, keys = torch.arange(T).expand(B, -1), KVCache.of(k, v, pos, real)
    found, weights = attention(q, q_pos, keys, keys.visible(full, q_pos))
    truth = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=real[:, None, None], enable_gqa=True)
    assert relative_error(found, truth) < 1e-5
    assert torch.allclose(weights.sum(-1), torch.ones(B, H, T))


@pytest.mark.parametrize("norm", [PreNormConfig(), PostNormConfig()])
def test_encoder_layer_equals_torch(norm):
    config = TransformerConfig(d_model=D, d_ff=FF, num_heads=H, dropout=0.0, residual=norm)
    ours: EncoderLayer = config.build(V, V).encoder[0]
    theirs = nn.TransformerEncoderLayer(
        D, H, FF, dropout=0.0, batch_first=True, norm_first=isinstance(norm, PreNormConfig)
    )
    shake(ours)
    copy_self(ours.attention, theirs.self_attn)
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    theirs.norm1.load_state_dict(ours.attention_residual.norm.state_dict())
    theirs.norm2.load_state_dict(ours.feed_forward_residual.norm.state_dict())
    x, (real, pos) = torch.randn(B, S, D), ragged(B, S)
    truth = theirs(x, src_key_padding_mask=~real)
    assert relative_error(ours(x, pos, real)[real], truth[real]) < 1e-5


@pytest.mark.parametrize("norm", [PreNormConfig(), PostNormConfig()])
def test_decoder_layer_equals_torch(norm):
    config = TransformerConfig(d_model=D, d_ff=FF, num_heads=H, dropout=0.0, residual=norm)
    ours: DecoderLayer = config.build(V, V).decoder[0]
    theirs = nn.TransformerDecoderLayer(
        D, H, FF, dropout=0.0, batch_first=True, norm_first=isinstance(norm, PreNormConfig)
    )
    shake(ours)
    copy_self(ours.attention, theirs.self_attn)
    copy_cross(ours.cross_attention, theirs.multihead_attn)
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    residuals = (ours.attention_residual, ours.cross_attention_residual, ours.feed_forward_residual)
    for residual, norm_of_theirs in zip(residuals, (theirs.norm1, theirs.norm2, theirs.norm3), strict=True):
        norm_of_theirs.load_state_dict(residual.norm.state_dict())
    x, memory, (real, pos) = torch.randn(B, T, D), torch.randn(B, S, D), ragged(B, S)
    hidden = torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
    truth = theirs(x, memory, tgt_mask=hidden, memory_key_padding_mask=~real)
    keys = ours.cross_attention.project(memory, pos, real)
    found, _, weights = ours(x, torch.arange(T).expand(B, -1), keys)
    assert relative_error(found, truth) < 1e-5
    assert weights.shape == (B, H, T, S)
    assert weights.masked_select(~real[:, None, None].expand_as(weights)).eq(0).all()


def test_whole_post_norm_model_equals_torch():
    """nn.Transformer with the paper's layout, embeddings and positions computed here from the paper's formulas."""
    config = TransformerConfig(
        d_model=D, d_ff=FF, num_heads=H, encoder_layers=2, decoder_layers=2, dropout=0.0, residual=PostNormConfig()
    )
    ours = config.build(V, V)
    theirs = nn.Transformer(D, H, 2, 2, FF, dropout=0.0, batch_first=True)
    theirs.encoder.norm = theirs.decoder.norm = None  # torch adds a norm at the end that the paper does not have
    for a, b in zip(ours.encoder, theirs.encoder.layers, strict=True):
        copy_layer(a, b)
    for a, b in zip(ours.decoder, theirs.decoder.layers, strict=True):
        copy_cross(a.cross_attention, b.multihead_attn)
        copy_layer(a, b)
    (src_real, src_pos), (tgt_real, tgt_pos) = ragged(B, S), ragged(B, T)
    source = Source(torch.randint(V, (B, S)), src_real, src_pos)
    target = Target(torch.randint(V, (B, T)), tgt_real, tgt_pos)
    truth = theirs(
        embed_as_the_paper(ours, source.ids),
        embed_as_the_paper(ours, target.ids),
        tgt_mask=torch.triu(torch.ones(T, T, dtype=torch.bool), 1),
        src_key_padding_mask=~src_real,
        tgt_key_padding_mask=~tgt_real,
        memory_key_padding_mask=~src_real,
    )
    assert relative_error(ours.decode_states(source, target)[tgt_real], truth[tgt_real]) < 1e-5


def copy_layer(ours: EncoderLayer | DecoderLayer, theirs: nn.Module) -> None:
    copy_self(ours.attention, theirs.self_attn)
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    residuals = [residual for residual in ours.children() if isinstance(residual, PostNorm)]
    for number, residual in enumerate(residuals, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(residual.norm.state_dict())


def embed_as_the_paper(model: Transformer, ids: Tensor) -> Tensor:
    encoding = torch.zeros(ids.size(1), D)
    for p in range(ids.size(1)):
        for i in range(D // 2):
            angle = torch.tensor(p / 10_000 ** (2 * i / D))
            encoding[p, 2 * i], encoding[p, 2 * i + 1] = angle.sin(), angle.cos()
    return model.output.weight[ids] * D**0.5 + encoding
