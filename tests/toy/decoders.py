"""Small models of three families and a ragged batch, for tests of decoder inputs and objectives."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.decoder_inputs.interface import TargetVocabIds

VOCAB = 9
VOCAB_IDS = TargetVocabIds(size=VOCAB, first_text_id=4, end_text_id=VOCAB, pad=0, unk=1, bos=2, eos=3)
MODELS = {
    "bahdanau": AttentionRNNConfig(d_model=6, d_embed=4, d_attention=5, dropout=0.0, decoder_layers=2),
    "rnn": Seq2SeqRNNConfig(d_model=6, d_embed=4, dropout=0.0),
    "transformer": TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=2, dropout=0.0),
}


def make_model(config):
    """A model in float64 and training mode."""
    torch.manual_seed(0)
    return config.build(VOCAB, VOCAB).double().train()


def make_batch(*, left=0):
    """Three sentences; `left` columns of padding before the target."""
    lengths = torch.tensor([3, 5, 1])
    columns = torch.arange(left + 5) - left
    real = (columns >= 0) & (columns < lengths.unsqueeze(1))
    pos = columns.clamp(min=0).expand(3, -1)
    tokens = torch.randint(3, VOCAB, (3, 6), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = 2
    ids = torch.where(real, tokens.gather(1, pos), 0)
    labels = torch.where(real, tokens.gather(1, pos + 1), 0)
    loss_mask = real.clone()
    loss_mask[1, left + 2] = False  # a real position outside the loss
    src_real = torch.tensor([[True, True, False], [True, True, True], [False, True, True]])
    src_pos = (src_real.cumsum(1) - 1).clamp(min=0)
    source = Source(torch.randint(3, VOCAB, (3, 3), generator=torch.Generator().manual_seed(2)), src_real, src_pos)
    return Batch(source, Target(ids, real, pos), labels, loss_mask, torch.arange(3))


def gradients(model, hidden):
    """The gradients of the squared states, for all parameters that have one."""
    loss = hidden.square().sum()
    return [g for g in torch.autograd.grad(loss, list(model.parameters()), allow_unused=True) if g is not None]


def assert_same_gradients(model, loss, expected):
    """Two losses are equal, and so are their gradients."""
    parameters = list(model.parameters())
    assert_close(loss, expected)
    ours, theirs = (torch.autograd.grad(each, parameters, allow_unused=True) for each in (loss, expected))
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_close(one, other)


class ReadRecorder(torch.nn.Module):
    """A model that records the tokens that its decoder reads."""

    def decode_states(self, source, target):
        self.read = target.ids
        return torch.zeros(*target.ids.shape, 2)


class AlternatingInput:
    """Teacher forcing whose states differ from call to call, as dropout would make them, but reproducibly."""

    def __init__(self):
        self.calls = 0

    def __call__(self, model, batch):
        self.calls += 1
        return model.decode_states(batch.source, batch.target)[batch.loss_mask] * (1 + 0.2 * (self.calls % 2))

    def set_update(self, update):
        pass
