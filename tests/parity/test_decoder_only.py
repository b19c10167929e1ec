"""Decoder-only model against layers of torch over the concatenated source and target, with the same weights."""

import pytest
import torch
from torch import nn

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.config import NoPositionConfig, PostNormConfig, PreNormConfig
from mtkit.models.decoder_only.config import DecoderOnlyConfig

D, H, FF, V, B, S, T = 16, 4, 24, 30, 3, 7, 5


@pytest.mark.parametrize("norm", [PreNormConfig(), PostNormConfig()], ids=lambda config: config.kind)
@pytest.mark.parametrize("visibility", ["bidirectional", "causal"])
def test_equals_one_masked_stack_over_source_and_target(norm, visibility):
    torch.manual_seed(1)
    ours = DecoderOnlyConfig(
        d_model=D,
        d_ff=FF,
        num_heads=H,
        decoder_layers=2,
        dropout=0.0,
        residual=norm,
        decoder_positions=NoPositionConfig(),
        source_visibility=visibility,
    ).build(V, V)
    for p in ours.parameters():
        p.data.add_(0.1 * torch.randn_like(p))
    pos = torch.arange(S).expand(B, -1)
    real = pos < torch.tensor([[7], [4], [2]])
    source = Source(torch.randint(V, (B, S)), real, pos)
    tgt_pos = torch.arange(T).expand(B, -1)
    target = Target(torch.randint(V, (B, T)), tgt_pos >= 0, tgt_pos)
    hidden = torch.triu(torch.ones(S + T, S + T, dtype=torch.bool), 1)
    if visibility == "bidirectional":
        hidden[:S, :S] = False
    x = ours.output.weight[torch.cat([source.ids, target.ids], 1)] * D**0.5
    for layer in ours.layers:
        theirs = nn.TransformerEncoderLayer(D, H, FF, dropout=0.0, batch_first=True, norm_first=norm.kind == "pre_norm")
        theirs.self_attn.in_proj_weight.data.copy_(layer.attention.query_key_value.weight)
        theirs.self_attn.in_proj_bias.data.copy_(layer.attention.query_key_value.bias)
        theirs.self_attn.out_proj.load_state_dict(layer.attention.out.state_dict())
        theirs.linear1.load_state_dict(layer.feed_forward.inner.state_dict())
        theirs.linear2.load_state_dict(layer.feed_forward.outer.state_dict())
        theirs.norm1.load_state_dict(layer.attention_residual.norm.state_dict())
        theirs.norm2.load_state_dict(layer.feed_forward_residual.norm.state_dict())
        padding = torch.cat([~real, torch.zeros(B, T, dtype=torch.bool)], 1)
        x = theirs(x, src_mask=hidden, src_key_padding_mask=padding)
    truth = ours.final_norm(x)
    src_found, found = ours.forward_both(source, target)
    for states, expected in ((found, truth[:, S:]), (src_found[real], truth[:, :S][real])):
        assert float((states - expected).detach().abs().max() / expected.detach().abs().max()) < 1e-5
