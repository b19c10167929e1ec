"""Residual connections: pre-norm, post-norm, sandwich norm and DeepNorm."""

import pytest
import torch

from mtkit.layers.config import (
    DeepNormConfig,
    LayerNormConfig,
    PostNormConfig,
    PreNormConfig,
    RMSNormConfig,
    SandwichNormConfig,
)
from mtkit.layers.norms import Depth, Residual, Sublayer
from mtkit.models.transformer.config import TransformerConfig

D = 8
DEPTH = Depth("encoder", 6, 6)
NORMS = [LayerNormConfig(), RMSNormConfig()]
RESIDUALS = [PreNormConfig, PostNormConfig, SandwichNormConfig, DeepNormConfig]


@pytest.mark.parametrize("residual", RESIDUALS)
@pytest.mark.parametrize("norm", NORMS, ids=lambda config: config.kind)
def test_gradcheck(residual, norm):
    module = residual(norm=norm).build(D, 0.0, DEPTH).double()
    x = torch.randn(2, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: module.post(x, module.pre(x).sin()), x)


def test_sandwich_norm_bounds_the_contribution_of_a_sublayer():
    residual = SandwichNormConfig().build(D, 0.0, DEPTH)
    x = torch.randn(3, D)
    added = residual.post(x, 1000 * torch.randn(3, D)) - x
    assert torch.allclose(added.pow(2).mean(-1), torch.ones(3), atol=1e-3)


def test_transformer_layers_consist_of_sublayers_and_residual_connections():
    model = TransformerConfig(d_model=8, num_heads=2, d_ff=8).build(5, 5)
    for layer in (*model.encoder, *model.decoder):
        sublayers = [child for child in layer.children() if not isinstance(child, Residual)]
        assert sublayers
        assert all(isinstance(sublayer, Sublayer) for sublayer in sublayers)
