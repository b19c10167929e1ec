"""Stacks with norms and residual connections against torch's LSTM and GRU with LayerNorm as loops."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mtkit.layers.config import LayerNormConfig
from mtkit.layers.recurrent.cells import CellState
from mtkit.layers.recurrent.config import (
    GRUCellConfig,
    LayerNormGRUCellConfig,
    LayerNormLSTMCellConfig,
    LSTMCellConfig,
    PlainConnectionConfig,
    ResidualConnectionConfig,
)
from mtkit.layers.recurrent.stack import RecurrentLayer
from mtkit.models.rnn.config import Seq2SeqRNNConfig

D_IN, D, B, T = 5, 6, 3, 4
LSTM_ORDER = torch.cat([torch.arange(D) + D * gate for gate in (0, 1, 3, 2)])  # torch's i, f, g, o to ours


def into_torch(cell, kind):
    """Torch layer with the weights of a cell."""
    theirs = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](cell.input_proj.in_features, D, batch_first=True).double()
    order = LSTM_ORDER.argsort() if kind == "lstm" else torch.arange(3 * D)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(cell.input_proj.weight[order])
        theirs.weight_hh_l0.copy_(cell.recurrent.weight[order])
        theirs.bias_ih_l0.copy_(cell.input_proj.bias[order])
        theirs.bias_hh_l0.copy_(cell.recurrent.bias if kind == "gru" else torch.zeros(4 * D))
    return theirs


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("connection", ["plain", "residual"])
def test_stack_equals_torch_layers_with_norms_between(kind, connection):
    torch.manual_seed(0)
    make = {"plain": PlainConnectionConfig, "residual": ResidualConnectionConfig}[connection]
    config = Seq2SeqRNNConfig(d_model=D, connection=make(norm=LayerNormConfig()))
    cell = {"lstm": LSTMCellConfig(), "gru": GRUCellConfig()}[kind]
    stack = config.build_stack([config.build_cell(cell, width) for width in (D_IN, D, D)]).double().eval()
    for p in stack.parameters():
        p.data.add_(0.1 * torch.randn_like(p))
    x = torch.randn(B, T, D_IN).double()
    output, ends = stack(x)
    expected = x
    for i, (layer, between) in enumerate(zip(stack.layers, stack.connections, strict=True)):
        y, end = into_torch(layer.cell, kind)(expected)
        y = y + expected if connection == "residual" and i else y
        expected = nn.functional.layer_norm(y, (D,), between.norm.weight, between.norm.bias)
        assert_close(ends[i].h, (end[0] if kind == "lstm" else end)[0])
    assert_close(output, expected)

    states = tuple(layer.cell.zero_state(x) for layer in stack.layers)
    for t in range(T):
        y, states = stack.step(x[:, t], states)
        assert_close(y, output[:, t])


def normalise(numbers, norm):
    mean = sum(numbers) / len(numbers)
    variance = sum((number - mean) ** 2 for number in numbers) / len(numbers)
    scaled = [(number - mean) / (variance + norm.eps).sqrt() for number in numbers]
    return [a * g + b for a, g, b in zip(scaled, norm.weight, norm.bias, strict=True)]


def randomised(cell):
    torch.manual_seed(0)
    cell = cell.double()
    for p in cell.parameters():
        p.data.add_(0.1 * torch.randn_like(p))
    return cell, torch.randn(D_IN).double(), torch.randn(D).double()


@torch.no_grad()
def test_layer_norm_lstm_equals_the_papers_equations():
    """Ba et al. 2016, supplementary material, as scalar loops."""
    cell, x, h = randomised(LayerNormLSTMCellConfig().build(D_IN, D, 0.0))
    c = torch.randn(D).double()
    output = RecurrentLayer(cell).step(x.unsqueeze(0), CellState(h.unsqueeze(0), c.unsqueeze(0)))
    from_h = normalise([row @ h for row in cell.recurrent.weight], cell.recurrent_norm)
    from_x = normalise([row @ x for row in cell.input_proj.weight], cell.input_norm)
    gates = [a + b for a, b in zip(from_h, from_x, strict=True)]
    i, f, o, g = (gates[begin : begin + D] for begin in range(0, 4 * D, D))
    new = [f[k].sigmoid() * c[k] + i[k].sigmoid() * g[k].tanh() for k in range(D)]
    assert_close(output.c[0], torch.stack(new))
    normalised = normalise(new, cell.cell_norm)
    assert_close(output.h[0], torch.stack([o[k].sigmoid() * normalised[k].tanh() for k in range(D)]))


@torch.no_grad()
def test_layer_norm_gru_equals_the_papers_equations():
    """Ba et al. 2016, supplementary material, as scalar loops; the paper's z is 1 - z here."""
    cell, x, h = randomised(LayerNormGRUCellConfig().build(D_IN, D, 0.0))
    output = RecurrentLayer(cell).step(x.unsqueeze(0), CellState(h.unsqueeze(0))).h[0]
    from_h, from_x = [row @ h for row in cell.recurrent.weight], [row @ x for row in cell.input_proj.weight]
    gates_h, gates_x = (
        normalise(from_h[: 2 * D], cell.recurrent_norms[0]),
        normalise(from_x[: 2 * D], cell.input_norms[0]),
    )
    n_h, n_x = normalise(from_h[2 * D :], cell.recurrent_norms[1]), normalise(from_x[2 * D :], cell.input_norms[1])
    for k in range(D):
        r, z = (gates_h[k] + gates_x[k]).sigmoid(), 1 - (gates_h[D + k] + gates_x[D + k]).sigmoid()
        assert_close(output[k], (1 - z) * h[k] + z * (n_x[k] + r * n_h[k]).tanh())


@pytest.mark.parametrize("config", [LayerNormLSTMCellConfig(), LayerNormGRUCellConfig()])
def test_layer_norm_cells_step_by_step_equal_the_whole_sequence(config):
    layer = RecurrentLayer(randomised(config.build(D_IN, D, 0.0))[0])
    x = torch.randn(B, T, D_IN).double()
    whole, _ = layer(x)
    state = layer.cell.zero_state(x)
    for t in range(T):
        state = layer.step(x[:, t], state)
        assert_close(state.h, whole[:, t])
