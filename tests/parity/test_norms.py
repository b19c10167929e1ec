"""Batch norm against torch over the real tokens; residual connections against their papers' equations."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.config import (
    BatchNormConfig,
    LayerNormConfig,
    NoNormConfig,
    NoResidualConfig,
    PostNormConfig,
    PreNormConfig,
    ResPostNormConfig,
)
from mtkit.layers.norms import Depth
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.transformer.config import TransformerConfig

D, B, T, V = 6, 3, 5, 9
TINY = {"d_model": 8, "d_ff": 8, "num_heads": 2, "dropout": 0.0}


def test_batch_norm_equals_torch_over_the_real_tokens():
    torch.manual_seed(0)
    ours, theirs = BatchNormConfig(momentum=0.3).build(D).double(), nn.BatchNorm1d(D, momentum=0.3).double()
    for p, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        p.data.normal_()
        other.data.copy_(p)
    for _ in range(3):  # running statistics too
        x, real = torch.randn(B, T, D).double().mul(3).requires_grad_(), torch.rand(B, T) < 0.6
        output, expected = ours(x, real), theirs(x[real])
        assert_close(output[real], expected)
        weight = torch.randn_like(expected)
        gradients = [torch.autograd.grad((y * weight).sum(), x, retain_graph=True)[0] for y in (output[real], expected)]
        assert_close(*gradients)
        assert (gradients[0][~real] == 0).all()
    assert_close(ours.running_mean, theirs.running_mean)
    assert_close(ours.running_var, theirs.running_var)
    assert_close(ours.eval()(x), theirs.eval()(x.flatten(0, 1)).view_as(x))


def test_batch_norm_of_no_token_or_one_changes_no_statistics():
    norm = BatchNormConfig().build(D)
    for count in (0, 1):
        real = torch.arange(T).unsqueeze(0) < count
        assert torch.isfinite(norm(torch.randn(1, T, D), real)).all()
    assert (norm.running_mean == 0).all()
    assert (norm.running_var == 1).all()


@pytest.mark.parametrize("residual", [PreNormConfig, PostNormConfig, ResPostNormConfig])
@pytest.mark.parametrize("model", [TransformerConfig, DecoderOnlyConfig])
def test_padding_does_not_change_batch_norm_of_a_model(model, residual):
    """A batch with more padding, filled with other tokens, has the same states and running statistics."""
    states, buffers = [], []
    for padding in (0, 3):
        torch.manual_seed(0)
        built = model(**TINY, residual=residual(norm=BatchNormConfig())).build(V, V).double().train()
        sides = []
        for length in (4, 5):
            pos = torch.arange(length + padding).expand(2, -1)
            real = pos < torch.tensor([[length], [length - 2]])
            ids = torch.arange(length + padding).repeat(2, 1) % V
            sides.append((torch.where(real, ids, 3 + padding), real, pos))
        output = built.decode_states(Source(*sides[0]), Target(*sides[1]))
        states.append(output[sides[1][1]])
        buffers.append([buffer for name, buffer in built.named_buffers() if "running" in name])
    assert_close(*states)
    assert buffers[0]
    for one, other in zip(*buffers, strict=True):
        assert_close(one, other)


def test_residuals_are_their_equations():
    torch.manual_seed(0)
    depth, (x, y) = Depth("encoder", 2, 2), torch.randn(2, B, T, D).double()
    built = {c: c().build(D, 0.0, depth).double() for c in (ResPostNormConfig, NoResidualConfig)}
    norm = nn.functional.layer_norm
    assert_close(built[ResPostNormConfig].pre(x), x)
    assert_close(built[ResPostNormConfig].post(x, y), x + norm(y, (D,)))
    assert_close(built[NoResidualConfig].pre(x), norm(x, (D,)))
    assert_close(built[NoResidualConfig].post(x, y), y)
    plain = PreNormConfig(norm=NoNormConfig()).build(D, 0.0, depth)
    assert_close(plain.post(x, plain.pre(x).sin()), x + x.sin())


def test_res_post_norm_bounds_a_sublayers_contribution():
    residual = ResPostNormConfig(norm=LayerNormConfig()).build(D, 0.0, Depth("encoder", 2, 2))
    x, y = torch.randn(2, B, D)
    assert_close((residual.post(x, 1000 * y) - x).square().mean(-1), torch.ones(B), atol=1e-3, rtol=0)


def test_bias_free_layers_equal_zero_biases():
    for kind in (TransformerConfig, DecoderOnlyConfig):
        torch.manual_seed(0)
        free = kind(**TINY, bias=False).build(V, V).eval()
        torch.manual_seed(0)
        zero = kind(**TINY).build(V, V).eval()
        layers = [name for name, _ in free.named_parameters() if name.endswith(".bias") and "norm" not in name]
        assert layers == []
        assert {name for name, _ in zero.named_parameters()} > {name for name, _ in free.named_parameters()}
        pos = torch.arange(4).unsqueeze(0)
        source, target = Source(pos + 3, pos >= 0, pos), Target(pos + 4, pos >= 0, pos)
        assert torch.equal(free.decode_states(source, target), zero.decode_states(source, target))
