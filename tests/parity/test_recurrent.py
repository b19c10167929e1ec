"""Recurrent layers against torch's LSTM and GRU with the same weights, and against the paper's equations as loops."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mtkit.layers.recurrent.cells import CellState
from mtkit.layers.recurrent.config import GRUCellConfig, LSTMCellConfig
from mtkit.layers.recurrent.stack import BidirectionalLayer, RecurrentLayer

D_IN, D, B, T = 5, 8, 3, 6


def lstm_from_torch(theirs, suffix=""):
    """Torch orders the gates i, f, g, o, and has two biases, whose sum is ours."""
    cell = LSTMCellConfig().build(D_IN, D, 0.0)
    order = torch.cat([torch.arange(D) + D * gate for gate in (0, 1, 3, 2)])
    with torch.no_grad():
        cell.input_proj.weight.copy_(theirs.get_parameter("weight_ih_l0" + suffix)[order])
        cell.recurrent.weight.copy_(theirs.get_parameter("weight_hh_l0" + suffix)[order])
        bias = theirs.get_parameter("bias_ih_l0" + suffix) + theirs.get_parameter("bias_hh_l0" + suffix)
        cell.input_proj.bias.copy_(bias[order])
    return cell


def gru_from_torch(theirs, suffix=""):
    cell = GRUCellConfig().build(D_IN, D, 0.0)
    with torch.no_grad():
        for layer, kind in ((cell.input_proj, "ih"), (cell.recurrent, "hh")):
            layer.weight.copy_(theirs.get_parameter(f"weight_{kind}_l0{suffix}"))
            layer.bias.copy_(theirs.get_parameter(f"bias_{kind}_l0{suffix}"))
    return cell


CELLS = {"lstm": (nn.LSTM, lstm_from_torch), "gru": (nn.GRU, gru_from_torch)}


@pytest.mark.parametrize("kind", CELLS)
def test_whole_sequence_and_gradients_equal_torch(kind):
    torch.manual_seed(0)
    theirs_type, convert = CELLS[kind]
    theirs = theirs_type(D_IN, D, batch_first=True)
    ours = RecurrentLayer(convert(theirs))
    x_ours, x_theirs = (torch.randn(B, T, D_IN, generator=torch.Generator().manual_seed(1)) for _ in range(2))
    x_ours.requires_grad_()
    x_theirs.requires_grad_()
    y_ours, end = ours(x_ours)
    y_theirs, end_theirs = theirs(x_theirs)
    assert_close(y_ours, y_theirs)
    h_theirs, c_theirs = end_theirs if kind == "lstm" else (end_theirs, None)
    assert_close(end.h, h_theirs[0])
    if c_theirs is not None:
        assert_close(end.c, c_theirs[0])

    weights = torch.randn(B, T, D)
    (y_ours * weights).sum().backward()
    (y_theirs * weights).sum().backward()
    assert_close(x_ours.grad, x_theirs.grad)
    grad = theirs.weight_hh_l0.grad
    if kind == "lstm":
        grad = grad[torch.cat([torch.arange(D) + D * gate for gate in (0, 1, 3, 2)])]
    assert_close(ours.cell.recurrent.weight.grad, grad)


@pytest.mark.parametrize("kind", CELLS)
def test_bidirectional_layer_with_padding_equals_torchs_packed_sequences(kind):
    torch.manual_seed(0)
    theirs_type, convert = CELLS[kind]
    theirs = theirs_type(D_IN, D, batch_first=True, bidirectional=True)
    ours = BidirectionalLayer(convert(theirs), convert(theirs, "_reverse"))
    x, lengths = torch.randn(B, T, D_IN), torch.tensor([6, 2, 4])
    real = torch.arange(T) < lengths.unsqueeze(1)
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, end = theirs(packed)
    expected, _ = nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)
    output, ends = ours(x, real)
    assert_close(output[real], expected[real])
    h = end[0] if kind == "lstm" else end
    assert_close(torch.stack([state.h for state in ends]), h)


@pytest.mark.parametrize("config", [LSTMCellConfig(), GRUCellConfig(), GRUCellConfig(reset_gate="before")])
def test_steps_equal_the_whole_sequence(config):
    torch.manual_seed(0)
    layer = RecurrentLayer(config.build(D_IN, D, 0.0))
    x = torch.randn(B, T, D_IN)
    whole, end = layer(x)
    state = layer.cell.zero_state(x)
    for t in range(T):
        state = layer.step(x[:, t], state)
        assert_close(state.h, whole[:, t])
    assert_close(state.h, end.h)


def test_reset_before_gru_equals_the_papers_equations():
    """Bahdanau et al. 2015, appendix A.1.1, as scalar loops; the paper's z is 1 - z here."""
    torch.manual_seed(0)
    cell = GRUCellConfig(reset_gate="before").build(D_IN, D, 0.0).double()
    nn.init.normal_(cell.input_proj.bias)
    x, h = torch.randn(1, D_IN, dtype=torch.float64), torch.randn(1, D, dtype=torch.float64)
    output = RecurrentLayer(cell).step(x, CellState(h)).h
    w_r, w_z, w = cell.input_proj.weight.detach().split(D)
    b_r, b_z, b = cell.input_proj.bias.detach().split(D)
    u_r, u_z = cell.recurrent_gates.weight.detach().split(D)
    u = cell.recurrent_candidate.weight.detach()

    def sigmoid(number):
        return 1 / (1 + torch.exp(-number))

    r = torch.stack([sigmoid(w_r[i] @ x[0] + u_r[i] @ h[0] + b_r[i]) for i in range(D)])
    for i in range(D):
        z = 1 - sigmoid(w_z[i] @ x[0] + u_z[i] @ h[0] + b_z[i])
        candidate = torch.tanh(w[i] @ x[0] + sum(u[i, j] * r[j] * h[0, j] for j in range(D)) + b[i])
        assert_close(output[0, i], (1 - z) * h[0, i] + z * candidate)
