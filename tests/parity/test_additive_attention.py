"""Additive attention against the paper's equations written as loops."""

import math

import torch
from torch.testing import assert_close

from mtkit.layers.recurrent.config import AdditiveConfig


@torch.no_grad()
def by_loops(attention, query, values, real):
    """Bahdanau et al. 2015, eq. 5 and 6, and appendix A.1.2, for one query [D] and one sentence [S, M]."""
    w, u, b = attention.query.weight, attention.key.weight, attention.key.bias
    v = attention.score.weight[0]
    positions = [j for j in range(len(values)) if real[j]]
    energies = {}
    for j in positions:
        energies[j] = sum(float(v[a]) * math.tanh(float(w[a] @ query + u[a] @ values[j] + b[a])) for a in range(len(v)))
    total = sum(math.exp(e) for e in energies.values())
    weights = [math.exp(energies[j]) / total if j in energies else 0.0 for j in range(len(values))]
    context = sum((weights[j] * values[j] for j in positions), torch.zeros_like(values[0]))
    return context, torch.tensor(weights, dtype=values.dtype)


def check(attention, width):
    batch, length = 3, 4
    values = torch.randn(batch, length, 6, dtype=torch.float64, requires_grad=torch.is_grad_enabled())
    real = torch.tensor([[True, True, True, True], [False, True, True, False], [False, False, False, False]])
    query = torch.randn(batch * width, 5, dtype=torch.float64)
    contexts, weights = attention.make_attend_fn(attention.project_memory(values, real))(query)
    for row in range(batch * width):
        context, expected = by_loops(attention, query[row], values[row // width], real[row // width])
        assert_close(contexts[row], context)
        assert_close(weights[row], expected)


def make():
    torch.manual_seed(0)
    attention = AdditiveConfig().build(5, 6, 7).double()
    torch.nn.init.normal_(attention.key.bias)
    return attention


def test_equations_and_several_queries_of_one_sentence_in_training():
    check(make(), width=1)
    check(make(), width=3)


def test_equations_and_several_queries_of_one_sentence_in_inference():
    with torch.inference_mode():
        check(make(), width=1)
        check(make(), width=3)
