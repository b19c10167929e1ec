"""Training of Transformers with each residual connection; very deep post-norm needs DeepNorm."""

import pytest
import torch
import torch.nn.functional as F

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.config import (
    DeepNormConfig,
    LayerNormConfig,
    PostNormConfig,
    PreNormConfig,
    RMSNormConfig,
    SandwichNormConfig,
)
from mtkit.models.transformer.config import TransformerConfig

V, B, L = 12, 8, 3


def final_loss(residual, layers, updates, rate):
    """Mean nats per token of the last five updates; task: copy the token that the source repeats; no warm-up."""
    torch.manual_seed(1)
    config = TransformerConfig(
        d_model=16, d_ff=32, num_heads=2, encoder_layers=layers, decoder_layers=layers, dropout=0.0, residual=residual
    )
    model = config.build(V, V)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    pos = torch.arange(L).expand(B, -1)
    real = torch.ones(B, L, dtype=torch.bool)
    losses = []
    for _ in range(updates):
        ids = torch.randint(V, (B, 1)).expand(B, L)
        hidden = model.decode_states(Source(ids, real, pos), Target(torch.zeros_like(ids), real, pos))
        loss = F.cross_entropy(model.output(hidden).flatten(0, 1), ids.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return sum(losses[-5:]) / 5


@pytest.mark.whole
@pytest.mark.parametrize("norm", [LayerNormConfig(), RMSNormConfig()], ids=lambda config: config.kind)
@pytest.mark.parametrize("residual", [PreNormConfig, PostNormConfig, SandwichNormConfig, DeepNormConfig])
def test_shallow_model_learns_with_every_residual_connection(residual, norm):
    assert final_loss(residual(norm=norm), layers=1, updates=40, rate=5e-3) < 1.5


@pytest.mark.slow
def test_post_norm_of_18_layers_needs_deepnorm():
    """Without warm-up; a uniform guess costs ln 12 = 2.48 nats."""
    deep, plain = (final_loss(each, layers=18, updates=35, rate=3e-3) for each in (DeepNormConfig(), PostNormConfig()))
    assert deep < 1.5
    assert plain > 2.0


def relative_change_of_output(residual):
    """Change of the output of an 18+18-layer model by one step of gradient descent, relative to its norm."""
    torch.manual_seed(1)
    config = TransformerConfig(
        d_model=16, d_ff=32, num_heads=2, encoder_layers=18, decoder_layers=18, dropout=0.0, residual=residual
    )
    model = config.build(V, V)
    pos, ids = torch.arange(L).expand(B, -1), torch.randint(V, (B, L))
    real = torch.ones(B, L, dtype=torch.bool)
    before = model.decode_states(Source(ids, real, pos), Target(ids, real, pos))
    F.cross_entropy(model.output(before).flatten(0, 1), ids.flatten()).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
        after = model.decode_states(Source(ids, real, pos), Target(ids, real, pos))
    return float((after - before).detach().norm() / before.detach().norm())


def test_deepnorm_bounds_the_first_update():
    """Deep post-norm models diverge because their first updates change the output too much (the paper, sec. 4)."""
    assert relative_change_of_output(DeepNormConfig()) < 0.5 * relative_change_of_output(PostNormConfig())
