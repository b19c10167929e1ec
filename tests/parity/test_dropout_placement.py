"""Dropout in training mode against torch's own layers under one seed.

Both sides draw their masks from torch's generator, one after another: outputs and gradients agree only if dropout acts
on the same tensors, in the same order, with the same shapes and probabilities. Batches hold one sentence, because
torch's layers draw the masks of some tensors time first.
"""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.config import PostNormConfig, PreNormConfig
from mtkit.layers.dropout import Dropout
from mtkit.layers.recurrent.config import LSTMCellConfig
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from tests.parity.test_transformer import copy_cross, copy_self

D, H, FF, V, S, T, P = 16, 4, 24, 30, 7, 5, 0.25


@pytest.fixture(autouse=True)
def masks_of_torch(monkeypatch):
    """Masks come from F.dropout, which torch's layers use, instead of 8 random bits per element."""
    monkeypatch.setattr(Dropout, "forward", lambda self, x: F.dropout(x, self.p, self.training))


def copy_layer(ours, theirs):
    """Copy a layer with the norms of its residual connections."""
    copy_self(ours.attention, theirs.self_attn)
    residuals = [ours.attention_residual, ours.feed_forward_residual]
    if hasattr(ours, "cross_attention"):
        copy_cross(ours.cross_attention, theirs.multihead_attn)
        residuals.insert(1, ours.cross_attention_residual)
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    for number, residual in enumerate(residuals, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(residual.norm.state_dict())


def make_models(norm):
    """Our model, and torch's with the same weights; dropout of attention weights and activations too, as in torch."""
    torch.manual_seed(0)
    config = TransformerConfig(
        d_model=D, d_ff=FF, num_heads=H, encoder_layers=2, decoder_layers=2, residual=norm,
        dropout=P, attention_dropout=P, activation_dropout=P,
    )  # fmt: skip
    ours = config.build(V, V).double().train()
    is_pre = isinstance(norm, PreNormConfig)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are not used with norm_first
        theirs = nn.Transformer(D, H, 2, 2, FF, dropout=P, batch_first=True, norm_first=is_pre).double().train()
    for p in ours.parameters():
        p.data.add_(0.1 * torch.randn_like(p))
    for stack, of_theirs in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for layer, other in zip(stack, of_theirs.layers, strict=True):
            copy_layer(layer, other)
    for ours_final, stack in ((ours.encoder_norm, theirs.encoder), (ours.decoder_norm, theirs.decoder)):
        if is_pre:
            stack.norm.load_state_dict(ours_final.state_dict())
        else:
            stack.norm = None
    return ours, theirs


def side(length, padding):
    """Ids [1, T], real tokens and positions of one sentence."""
    pos = torch.arange(length + padding).unsqueeze(0)
    return torch.randint(V, pos.shape), pos < length, pos


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("norm", [PreNormConfig(), PostNormConfig()], ids=["pre", "post"])
def test_transformer_in_training_mode_equals_torch(norm, padding):
    ours, theirs = make_models(norm)
    source, target = Source(*side(S, padding)), Target(*side(T, padding))
    src_real, tgt_real = source.real, target.real
    torch.manual_seed(7)
    output = ours.decode_states(source, target)

    torch.manual_seed(7)
    embed = ours.src_embedding
    sides = []
    for each in (source, target):  # sec. 5.4: dropout of embeddings plus positions
        sides.append(embed.table(each.ids) * D**0.5 + embed.position.encoding(each.pos).double())
    memory = theirs.encoder(F.dropout(sides[0], P), src_key_padding_mask=~src_real)
    causal = torch.triu(torch.ones(T + padding, T + padding, dtype=torch.bool), 1)
    expected = theirs.decoder(
        F.dropout(sides[1], P),
        memory,
        tgt_mask=causal,
        tgt_key_padding_mask=~tgt_real,
        memory_key_padding_mask=~src_real,
    )
    assert_close(output[tgt_real], expected[tgt_real])
    assert not torch.allclose(ours.decode_states(source, target)[tgt_real], expected[tgt_real])  # other masks

    weight = torch.randn_like(expected)[tgt_real]
    (output[tgt_real] * weight).sum().backward()
    gradient = ours.encoder[0].feed_forward.inner.weight.grad.clone()
    (expected[tgt_real] * weight).sum().backward()
    assert_close(gradient, theirs.encoder.layers[0].linear1.weight.grad)


def test_recurrent_stack_in_training_mode_equals_torch():
    """Dropout between the layers of a stack, after each except the last."""
    torch.manual_seed(0)
    config = Seq2SeqRNNConfig(d_model=D, dropout=P)
    stack = config.build_stack([config.build_cell(LSTMCellConfig(), D) for _ in range(3)]).double().train()
    theirs = nn.LSTM(D, D, 3, dropout=P).double().train()
    rows = (torch.tensor([0, 1, 3, 2]).unsqueeze(1) * D + torch.arange(D)).flatten()  # torch: i, f, candidate, o
    for number, layer in enumerate(stack.layers):
        getattr(theirs, f"weight_ih_l{number}").data.copy_(layer.cell.input_proj.weight[rows])
        getattr(theirs, f"weight_hh_l{number}").data.copy_(layer.cell.recurrent.weight[rows])
        getattr(theirs, f"bias_ih_l{number}").data.copy_(layer.cell.input_proj.bias[rows])
        getattr(theirs, f"bias_hh_l{number}").data.zero_()
    x = torch.randn(1, S, D).double()
    torch.manual_seed(7)
    output, _ = stack(x)
    torch.manual_seed(7)
    expected, _ = theirs(x.transpose(0, 1))
    assert_close(output, expected.transpose(0, 1))
