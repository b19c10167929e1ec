"""Gradient over distance: the known decay of a linear recurrence, and curves of real models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from mtkit.cli import entry
from mtkit.describe.plots import gradient_by_distance
from mtkit.errors import UsageError
from mtkit.layers.recurrent.config import GRUCellConfig, LSTMCellConfig, TanhCellConfig
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig

VOCAB = 30


class LinearRecurrence(nn.Module):
    """h_t = decay · Q h_(t-1) + e_t with an orthogonal Q, so that |dL_t / de_(t-k)| = decay^k |dL_t / dh_t|."""

    def __init__(self, decay):
        super().__init__()
        torch.manual_seed(0)
        self.decay = decay
        self.table, self.output = nn.Embedding(VOCAB, 8), nn.Linear(8, VOCAB)
        self.rotation = torch.linalg.qr(torch.randn(8, 8)).Q

    def decode_states(self, source, target):
        embedded = self.table(target.ids)
        states = [embedded[:, 0]]
        for t in range(1, embedded.size(1)):
            states.append(self.decay * states[-1] @ self.rotation + embedded[:, t])
        return torch.stack(states, 1)


def measure(model, length=30):
    return gradient_by_distance(model, src_vocab=VOCAB, tgt_vocab=VOCAB, length=length)


@pytest.mark.parametrize("decay", [0.5, 0.9, 1.0, 1.1])
def test_a_linear_recurrence_decays_by_its_factor(decay):
    norms = measure(LinearRecurrence(decay))
    assert norms / norms[0] == pytest.approx(decay ** np.arange(30), rel=1e-4)


SIZES = {"d_model": 16, "d_embed": 16, "dropout": 0.0, "num_layers": 1}


@pytest.mark.parametrize(
    "config",
    [
        *(Seq2SeqRNNConfig(cell=cell, **SIZES) for cell in (TanhCellConfig(), LSTMCellConfig(), GRUCellConfig())),
        TransformerConfig(d_model=16, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1),
        DecoderOnlyConfig(d_model=16, d_ff=16, num_heads=2, decoder_layers=1),
    ],
    ids=lambda config: f"{config.kind}-{getattr(getattr(config, 'cell', None), 'kind', '')}",
)
def test_every_family_has_a_gradient_at_every_distance(config):
    torch.manual_seed(1)
    model = config.build(VOCAB, VOCAB).eval()
    norms = measure(model, 6)
    assert norms.shape == (6,)
    assert np.isfinite(norms).all()
    assert (norms > 0).all()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_gradient_of_an_lstm_reaches_where_that_of_a_recurrence_without_gates_has_faded():
    share = {}
    for cell in (TanhCellConfig(), LSTMCellConfig()):
        torch.manual_seed(1)
        sizes = {"d_model": 64, "d_embed": 32, "dropout": 0.0, "num_layers": 2}
        norms = measure(Seq2SeqRNNConfig(cell=cell, **sizes).build(VOCAB, VOCAB).eval(), 40)
        share[cell.kind] = norms[-1] / norms.max()
    assert share["lstm"] > 100 * share["tanh"]


@pytest.mark.whole
def test_command_draws_recipes_and_refuses_other_options(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    output = tmp_path / "g.png"
    assert entry.execute(["plot", "quickstart", "multi30k-lstm", "--gradients", "-o", str(output)]) == 0
    assert output.read_bytes().startswith(b"\x89PNG")
    assert entry.execute(["plot", "quickstart", "--gradients", "--positions"]) == UsageError.exit_code
    assert "--gradients excludes --positions" in capsys.readouterr().err
