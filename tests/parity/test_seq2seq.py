"""The whole model of Sutskever et al. 2014 against torch.nn.LSTM and GRU, one sentence at a time without padding."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.recurrent.config import GRUCellConfig, LSTMCellConfig
from mtkit.models.rnn.config import Seq2SeqRNNConfig

D, E, LAYERS, VOCAB, BOS = 5, 4, 3, 9, 2
SENTENCES = [([4, 5, 6, 3], [BOS, 7, 8]), ([8, 3], [BOS, 4, 5, 6]), ([7, 5, 3], [BOS])]
GATES = {"lstm": torch.tensor([0, 1, 3, 2]), "gru": torch.tensor([0, 1, 2])}  # torch's order of our gates


def into_torch(stack, kind):
    """Torch's stack with the weights of ours."""
    theirs = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](E, D, LAYERS, batch_first=True).double()
    rows = (GATES[kind].unsqueeze(1) * D + torch.arange(D)).flatten()
    for number, layer in enumerate(stack.layers):
        cell = layer.cell
        recurrent_bias = torch.zeros(4 * D) if cell.recurrent.bias is None else cell.recurrent.bias
        for name, weight in (
            ("weight_ih", cell.input_proj.weight),
            ("weight_hh", cell.recurrent.weight),
            ("bias_ih", cell.input_proj.bias),
            ("bias_hh", recurrent_bias),
        ):
            getattr(theirs, f"{name}_l{number}").data.copy_(weight[rows])
    return theirs


def padded(sides, *, on_the_left):
    length = max(len(ids) for ids in sides)
    ids, real, pos = torch.zeros(3, len(sides), length, dtype=torch.int64)
    for b, tokens in enumerate(sides):
        first = length - len(tokens) if on_the_left else 0
        ids[b, first : first + len(tokens)] = torch.tensor(tokens)
        real[b, first : first + len(tokens)] = 1
        pos[b, first : first + len(tokens)] = torch.arange(len(tokens))
    return ids, real.bool(), pos


@pytest.mark.parametrize("reverse", [True, False])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("on_the_left", [True, False])
def test_states_are_handed_over_layer_by_layer(kind, reverse, on_the_left):
    """The decoder of torch starts from (h_n, c_n) of its encoder, which reads the source reversed (sec. 3.3)."""
    torch.manual_seed(0)
    cell = {"lstm": LSTMCellConfig(), "gru": GRUCellConfig()}[kind]
    config = Seq2SeqRNNConfig(d_model=D, d_embed=E, num_layers=LAYERS, cell=cell, reverse_source=reverse, dropout=0.0)
    model = config.build(VOCAB, VOCAB).double().eval()
    for p in model.parameters():
        p.data.add_(0.3 * torch.randn_like(p))
    source = Source(*padded([s for s, _ in SENTENCES], on_the_left=on_the_left))
    target = Target(*padded([t for _, t in SENTENCES], on_the_left=False))
    states, state, steps = model.decode_states(source, target), model.start(source), []
    for t in range(target.ids.size(1)):
        step = model.step(target.ids[:, t], state)
        steps.append(step.hidden)
        state = step.state

    encoder, decoder = into_torch(model.encoder, kind), into_torch(model.decoder, kind)
    for b, (src, tgt) in enumerate(SENTENCES):
        x = model.src_embedding.table.weight[src[::-1] if reverse else src] * E**0.5
        _, handed_over = encoder(x.unsqueeze(0))
        y, _ = decoder((model.tgt_embedding.table.weight[tgt] * E**0.5).unsqueeze(0), handed_over)
        expected = nn.functional.linear(y[0], model.readout.weight, model.readout.bias)
        assert_close(states[b, : len(tgt)], expected)
        assert_close(torch.stack(steps, 1)[b, : len(tgt)], expected)
