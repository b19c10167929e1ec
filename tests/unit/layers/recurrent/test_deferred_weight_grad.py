"""Hand-written gradients of recurrent layers against autograd and finite differences."""

import torch
from torch import nn
from torch.testing import assert_close

from mtkit.layers.recurrent.config import AdditiveConfig, GRUCellConfig, LSTMCellConfig
from mtkit.layers.recurrent.deferred_weight_grad import recurrent_linear
from mtkit.layers.recurrent.stack import RecurrentLayer

X = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def loop(product):
    h = X
    for _ in range(3):
        h = torch.tanh(product(h, X)) + product(h)
    return h.square().sum()


def test_deferred_gradient_is_the_sum_over_steps():
    layer = nn.Linear(3, 3).double()
    expected = torch.autograd.grad(loop(lambda x, add=0: layer(x) + add), list(layer.parameters()))
    assert_close(torch.autograd.grad(loop(recurrent_linear(layer)), list(layer.parameters())), expected)


def test_repeated_backward_passes_do_not_add_up():
    layer = nn.Linear(3, 3).double()
    x = X.clone().requires_grad_()
    product = recurrent_linear(layer)
    loss = product(product(x)).square().sum()
    first = torch.autograd.grad(loss, [layer.weight], retain_graph=True)
    torch.autograd.grad(loss, [x], retain_graph=True)  # leaves pairs in the accumulator
    assert_close(torch.autograd.grad(loss, [layer.weight]), first)


def test_subclasses_of_linear_are_called_as_they_are():
    class Adapted(nn.Linear):
        def forward(self, x):
            return super().forward(x) + 1

    layer = Adapted(3, 3).double()
    assert_close(recurrent_linear(layer)(X), layer(X))


def test_gradcheck_of_cells():
    torch.manual_seed(0)
    real = torch.tensor([[True, True, True], [False, True, False]])
    for config in (LSTMCellConfig(), GRUCellConfig(), GRUCellConfig(reset_gate="before")):
        layer = RecurrentLayer(config.build(2, 3, 0.0), reverse=True).double()
        names = [name for name, _ in layer.named_parameters()]

        def outputs(x, *parameters, layer=layer, names=names):
            y, end = torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x, real))
            return (y, end.h) if end.c is None else (y, end.h, end.c)

        x = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(outputs, (x, *layer.parameters()), fast_mode=True)


def test_gradcheck_of_additive_attention():
    torch.manual_seed(0)
    attention = AdditiveConfig().build(3, 4, 5).double()
    real = torch.tensor([[True, True, False], [False, True, True]])
    names = [name for name, _ in attention.named_parameters()]

    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, query, values):
            attend = attention.make_attend_fn(attention.project_memory(values, real))
            contexts = []
            for _ in range(3):
                context, weights = attend(query)
                query = query + context[:, :3].tanh()
                contexts += [context, weights]
            return tuple(contexts)

    def outputs(query, values, *parameters):
        weights = {f"attention.{name}": parameter for name, parameter in zip(names, parameters, strict=True)}
        return torch.func.functional_call(Loop(), weights, (query, values))

    query = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)  # one hypothesis a sentence
    wide = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)  # two
    values = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    for queries in (query, wide):
        assert torch.autograd.gradcheck(outputs, (queries, values, *attention.parameters()), fast_mode=True)
