"""A very deep post-norm Transformer trains with DeepNorm, and not without."""

import pytest
import torch
import torch.nn.functional as F

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.norms.deepnorm import DeepNormConfig
from mtkit.layers.norms.layer_norm import LayerNormConfig
from mtkit.layers.norms.residual import PostNormConfig, PreNormConfig
from mtkit.layers.norms.rms_norm import RMSNormConfig
from mtkit.layers.norms.sandwich import SandwichConfig
from mtkit.models.transformer.config import TransformerConfig

V, B, L = 12, 8, 3


def final_loss(norm, layers, updates, rate):
    """Nats a token after some updates of saying which piece the source repeats, without warm-up."""
    torch.manual_seed(1)
    config = TransformerConfig(
        d_model=16, d_ff=32, num_heads=2, encoder_layers=layers, decoder_layers=layers, dropout=0.0, norm=norm
    )
    model = config.build(V, V)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    pos = torch.arange(L).expand(B, -1)
    real = torch.ones(B, L, dtype=torch.bool)
    losses = []
    for _ in range(updates):
        ids = torch.randint(V, (B, 1)).expand(B, L)
        hidden = model.hidden(Source(ids, real, pos), Target(torch.zeros_like(ids), real, pos))
        loss = F.cross_entropy(model.output(hidden).flatten(0, 1), ids.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return sum(losses[-5:]) / 5


@pytest.mark.parametrize("norm_layer", [LayerNormConfig(), RMSNormConfig()], ids=lambda config: config.kind)
@pytest.mark.parametrize("norm", [PreNormConfig, PostNormConfig, SandwichConfig, DeepNormConfig])
def test_a_shallow_one_learns_with_every_norm(norm, norm_layer):
    assert final_loss(norm(norm_layer=norm_layer), layers=1, updates=40, rate=5e-3) < 1.5


@pytest.mark.slow
def test_eighteen_layers_after_the_sum_need_deep_norm():
    """At a rate without warm-up; guessing costs ln 12 = 2.48 nats."""
    deep, plain = (final_loss(norm, layers=18, updates=35, rate=3e-3) for norm in (DeepNormConfig(), PostNormConfig()))
    assert deep < 1.5
    assert plain > 2.0


def change_of_output(norm):
    """How far one step of gradient descent moves the output of an 18+18-layer model, as a share of its size."""
    torch.manual_seed(1)
    config = TransformerConfig(
        d_model=16, d_ff=32, num_heads=2, encoder_layers=18, decoder_layers=18, dropout=0.0, norm=norm
    )
    model = config.build(V, V)
    pos, ids = torch.arange(L).expand(B, -1), torch.randint(V, (B, L))
    real = torch.ones(B, L, dtype=torch.bool)
    before = model.hidden(Source(ids, real, pos), Target(ids, real, pos))
    F.cross_entropy(model.output(before).flatten(0, 1), ids.flatten()).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
        after = model.hidden(Source(ids, real, pos), Target(ids, real, pos))
    return float((after - before).detach().norm() / before.detach().norm())


def test_deep_norm_bounds_the_first_update():
    """What makes a deep post-norm model diverge is that its first updates change the output too much (sec. 4)."""
    assert change_of_output(DeepNormConfig()) < 0.5 * change_of_output(PostNormConfig())
