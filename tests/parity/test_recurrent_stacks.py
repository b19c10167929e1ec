"""Stacks with norms and residual connections against torch's LSTM and GRU with LayerNorm as loops."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mtkit.layers.norms.layer_norm import LayerNormConfig
from mtkit.layers.recurrent.cells import CellState, GRUCellConfig, LSTMCellConfig
from mtkit.layers.recurrent.layer_norm_cells import NormedGRUCell, NormedLSTMCell
from mtkit.layers.recurrent.stack import PlainJointConfig, RecurrentLayer, ResidualJointConfig
from mtkit.models.rnn.config import RecurrentConfig

D_IN, D, B, T = 5, 6, 3, 4
LSTM_ORDER = torch.cat([torch.arange(D) + D * gate for gate in (0, 1, 3, 2)])  # torch's i, f, g, o to ours


def into_torch(cell, kind):
    """Torch's layer with the weights of a cell."""
    theirs = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](cell.inputs.in_features, D, batch_first=True).double()
    order = LSTM_ORDER.argsort() if kind == "lstm" else torch.arange(3 * D)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(cell.inputs.weight[order])
        theirs.weight_hh_l0.copy_(cell.recurrent.weight[order])
        theirs.bias_ih_l0.copy_(cell.inputs.bias[order])
        theirs.bias_hh_l0.copy_(cell.recurrent.bias if kind == "gru" else torch.zeros(4 * D))
    return theirs


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("joint", ["plain", "residual"])
def test_stack_is_torchs_layers_with_norms_between(kind, joint):
    torch.manual_seed(0)
    joint_config = {"plain": PlainJointConfig, "residual": ResidualJointConfig}[joint](norm_layer=LayerNormConfig())
    config, cell = (
        RecurrentConfig(d_model=D, joint=joint_config),
        {"lstm": LSTMCellConfig(), "gru": GRUCellConfig()}[kind],
    )
    stack = config.build_stack([config.build_cell(cell, width) for width in (D_IN, D, D)]).double().eval()
    for p in stack.parameters():
        p.data.add_(0.1 * torch.randn_like(p))
    x = torch.randn(B, T, D_IN).double()
    found, ends = stack(x)
    expected = x
    for i, (layer, between) in enumerate(zip(stack.layers, stack.joints, strict=True)):
        y, end = into_torch(layer.cell, kind)(expected)
        y = y + expected if joint == "residual" and i else y
        expected = nn.functional.layer_norm(y, (D,), between.norm.weight, between.norm.bias)
        assert_close(ends[i].h, (end[0] if kind == "lstm" else end)[0])
    assert_close(found, expected)

    states = tuple(layer.cell.zeros(x) for layer in stack.layers)
    for t in range(T):
        y, states = stack.advance(x[:, t], states)
        assert_close(y, found[:, t])


def normalise(numbers, norm):
    mean = sum(numbers) / len(numbers)
    variance = sum((number - mean) ** 2 for number in numbers) / len(numbers)
    scaled = [(number - mean) / (variance + norm.eps).sqrt() for number in numbers]
    return [a * g + b for a, g, b in zip(scaled, norm.weight, norm.bias, strict=True)]


def shaken(cell):
    torch.manual_seed(0)
    cell = cell.double()
    for p in cell.parameters():
        p.data.add_(0.1 * torch.randn_like(p))
    return cell, torch.randn(D_IN).double(), torch.randn(D).double()


@torch.no_grad()
def test_normed_lstm_is_the_papers_equations():
    """Ba et al. 2016, supplementary material, one number at a time."""
    cell, x, h = shaken(NormedLSTMCell(D_IN, D))
    c = torch.randn(D).double()
    found = RecurrentLayer(cell).advance(x.unsqueeze(0), CellState(h.unsqueeze(0), c.unsqueeze(0)))
    from_h = normalise([row @ h for row in cell.recurrent.weight], cell.recurrent_norm)
    from_x = normalise([row @ x for row in cell.inputs.weight], cell.input_norm)
    gates = [a + b for a, b in zip(from_h, from_x, strict=True)]
    i, f, o, g = (gates[begin : begin + D] for begin in range(0, 4 * D, D))
    new = [f[k].sigmoid() * c[k] + i[k].sigmoid() * g[k].tanh() for k in range(D)]
    assert_close(found.c[0], torch.stack(new))
    shown = normalise(new, cell.content_norm)
    assert_close(found.h[0], torch.stack([o[k].sigmoid() * shown[k].tanh() for k in range(D)]))


@torch.no_grad()
def test_normed_gru_is_the_papers_equations():
    """Ba et al. 2016, supplementary material, one number at a time; the paper's z is one less ours."""
    cell, x, h = shaken(NormedGRUCell(D_IN, D))
    found = RecurrentLayer(cell).advance(x.unsqueeze(0), CellState(h.unsqueeze(0))).h[0]
    from_h, from_x = [row @ h for row in cell.recurrent.weight], [row @ x for row in cell.inputs.weight]
    gates_h, gates_x = (
        normalise(from_h[: 2 * D], cell.recurrent_norms[0]),
        normalise(from_x[: 2 * D], cell.input_norms[0]),
    )
    n_h, n_x = normalise(from_h[2 * D :], cell.recurrent_norms[1]), normalise(from_x[2 * D :], cell.input_norms[1])
    for k in range(D):
        r, z = (gates_h[k] + gates_x[k]).sigmoid(), 1 - (gates_h[D + k] + gates_x[D + k]).sigmoid()
        assert_close(found[k], (1 - z) * h[k] + z * (n_x[k] + r * n_h[k]).tanh())


@pytest.mark.parametrize("make", [NormedLSTMCell, NormedGRUCell])
def test_normed_cells_step_by_step_are_the_whole_sequence(make):
    layer = RecurrentLayer(shaken(make(D_IN, D))[0])
    x = torch.randn(B, T, D_IN).double()
    whole, _ = layer(x)
    state = layer.cell.zeros(x)
    for t in range(T):
        state = layer.advance(x[:, t], state)
        assert_close(state.h, whole[:, t])
