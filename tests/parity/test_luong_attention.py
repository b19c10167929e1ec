"""Attention and input feeding against the equations of Luong et al. 2015 written as loops."""

import math

import pytest
import torch
from torch.testing import assert_close

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.recurrent.config import ConcatConfig, DotConfig, GeneralConfig, LocalConfig, TanhReadoutConfig
from mtkit.models.rnn.config import AttentionRNNConfig

D, E, VOCAB = 5, 4, 9
KINDS = {
    "dot": DotConfig(),
    "general": GeneralConfig(),
    "concat": ConcatConfig(),
    "local": LocalConfig(score=GeneralConfig(), window=1),
}


def score(attention, kind, h_t, h_s):
    """Eq. 8 for one pair."""
    match kind:
        case "dot":
            return sum(float(a) * float(b) for a, b in zip(h_t, h_s, strict=True))
        case "general":
            return sum(float(h_t[i]) * float(attention.key.weight[i] @ h_s) for i in range(D))
    w = torch.cat([attention.query.weight, attention.key.weight], 1)  # W_a
    inner = w @ torch.cat([h_t, h_s])
    return sum(float(attention.score.weight[0, a]) * math.tanh(float(inner[a])) for a in range(len(inner)))


def attend(attention, kind, h_t, memory):
    """Eq. 7 and the weighted average; eqs. 9 and 10 for local attention."""
    energies, near = [], []
    if kind == "local":
        inner = torch.tanh(attention.query.weight @ h_t)
        p_t = len(memory) / (1 + math.exp(-float(attention.position.weight[0] @ inner)))
        sigma = attention.window / 2
        for s in range(len(memory)):
            is_inside = p_t - attention.window <= s <= p_t + attention.window
            near.append(math.exp(-((s - p_t) ** 2) / (2 * sigma**2)) if is_inside else 0.0)
        attention, kind = attention.score, "general"
    for s, h_s in enumerate(memory):
        energies.append(math.exp(score(attention, kind, h_t, h_s)) if not near or near[s] else 0.0)
    weights = [energy / sum(energies) for energy in energies]
    if near:
        weights = [weight * closeness for weight, closeness in zip(weights, near, strict=True)]
    return sum(weight * h_s for weight, h_s in zip(weights, memory, strict=True)), weights


def gru(cell, x_gates, h):
    """One step of torch's GRU with these weights; x_gates is the projected input."""
    x, p = x_gates.split(D), (cell.recurrent.weight @ h + cell.recurrent.bias).split(D)
    r, z = torch.sigmoid(x[0] + p[0]), torch.sigmoid(x[1] + p[1])
    return (1 - z) * torch.tanh(x[2] + r * p[2]) + z * h


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decoder", ["luong", "input_feeding"])
@torch.no_grad()
def test_decoders_equal_the_papers_equations(kind, decoder):
    torch.manual_seed(0)
    config = AttentionRNNConfig(
        d_model=D, d_embed=E, d_attention=3, bidirectional_layers=0, dropout=0.0, readout=TanhReadoutConfig(),
        decoder=decoder, attention=KINDS[kind],
    )  # fmt: skip
    model = config.build(VOCAB, VOCAB).double().eval()
    src, tgt = torch.tensor([[4, 5, 6, 3]]), torch.tensor([[2, 7, 8]])
    real, pos = torch.ones_like, torch.zeros_like
    output = model.decode_states(Source(src, real(src).bool(), pos(src)), Target(tgt, real(tgt).bool(), pos(tgt)))[0]

    cell = model.encoder.layers[0].cell
    h, memory = torch.zeros(D, dtype=torch.float64), []
    for token in src[0]:
        x = model.src_embedding.table.weight[token] * math.sqrt(E)
        h = gru(cell, cell.input_proj.weight @ x + cell.input_proj.bias, h)
        memory.append(h)
    h = torch.tanh(model.bridges[0].h.weight @ h + model.bridges[0].h.bias)
    feeding = decoder == "input_feeding"
    parts = model.decoder if feeding else model
    cell = (parts.stack if feeding else model.decoder).layers[0].cell
    attentional = torch.zeros(E, dtype=torch.float64)
    for t, token in enumerate(tgt[0]):
        x = model.tgt_embedding.table.weight[token] * math.sqrt(E)
        gates = cell.input_proj.weight @ x + cell.input_proj.bias
        h = gru(cell, gates + parts.feed_proj.weight @ attentional if feeding else gates, h)
        context, _ = attend(parts.attention, kind, h, memory)
        readout = parts.readout.linear
        attentional = torch.tanh(readout.weight @ torch.cat([h, context]) + readout.bias)  # eq. 5
        assert_close(output[t], attentional)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_weights_of_several_queries_of_one_sentence(kind):
    torch.manual_seed(0)
    attention = KINDS[kind].build(D, D, 3).double()
    values, query = torch.randn(2, 4, D).double(), torch.randn(6, D).double()
    real = torch.tensor([[True, True, True, True], [False, True, True, False]])
    contexts, weights = attention.make_attend_fn(attention.project_memory(values, real))(query)
    for row in range(6):
        sentence = row // 3
        positions = real[sentence].nonzero().flatten()
        context, expected = attend(attention, kind, query[row], values[sentence][positions])
        assert_close(contexts[row], context)
        assert_close(weights[row][positions], torch.tensor(expected).double())
        assert (weights[row][~real[sentence]] == 0).all()
