"""Norms and residual connections."""

import math

import pytest
import torch
from torch import nn

from mtkit.layers.branch import Branch
from mtkit.layers.norms.deepnorm import DeepNorm, DeepNormConfig, deep_scales
from mtkit.layers.norms.layer_norm import LayerNormConfig
from mtkit.layers.norms.residual import Depth, PostNormConfig, PreNormConfig
from mtkit.layers.norms.rms_norm import RMSNormConfig
from mtkit.layers.norms.sandwich import SandwichConfig
from mtkit.models.transformer.config import TransformerConfig

D = 8
DEPTH = Depth("encoder", 6, 6)
NORM_LAYERS = [LayerNormConfig(), RMSNormConfig()]
JOINTS = [PreNormConfig, PostNormConfig, SandwichConfig, DeepNormConfig]


def test_rms_norm_as_the_paper_writes_it():
    norm = RMSNormConfig(epsilon=1e-30).build(D).double()
    nn.init.normal_(norm.weight)
    x = torch.randn(3, D, dtype=torch.float64)
    for row, found in zip(x, norm(x), strict=True):
        rms = math.sqrt(sum(float(value) ** 2 for value in row) / D)
        assert torch.allclose(found, row / rms * norm.weight)


def test_rms_norm_keeps_the_type_and_is_computed_in_full():
    x = torch.randn(4, D).mul(300).to(torch.bfloat16)
    found = RMSNormConfig().build(D)(x)
    assert found.dtype == torch.bfloat16
    assert torch.allclose(found.float(), RMSNormConfig().build(D)(x.float()), rtol=1e-2)


@pytest.mark.parametrize("joint", JOINTS)
@pytest.mark.parametrize("norm_layer", NORM_LAYERS, ids=lambda config: config.kind)
def test_gradients_are_those_of_the_function(joint, norm_layer):
    residual = joint(norm_layer=norm_layer).build(D, 0.0, DEPTH).double()
    x = torch.randn(2, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: residual.leave(x, residual.enter(x).sin()), x)


def test_sandwich_bounds_what_a_sublayer_adds():
    residual = SandwichConfig().build(D, 0.0, DEPTH)
    x = torch.randn(3, D)
    added = residual.leave(x, 1000 * torch.randn(3, D)) - x
    assert torch.allclose(added.pow(2).mean(-1), torch.ones(3), atol=1e-3)


@pytest.mark.parametrize(
    ("depth", "alpha", "beta"),
    [  # the paper's recommended settings, worked out by hand for N = 18, M = 6
        (Depth("encoder", 18, 6), 0.81 * 18**0.25 * 6**0.0625, 0.87 / 18**0.25 / 6**0.0625),
        (Depth("decoder", 18, 6), 18**0.25, 72**-0.25),
        (Depth("alone", 0, 8), 2.0, 64**-0.25),
    ],
)
def test_deep_scales_are_the_papers(depth, alpha, beta):
    assert deep_scales(depth) == pytest.approx((alpha, beta))


def test_deep_norm_scales_what_values_go_through_and_nothing_else():
    keys = {"d_model": 64, "d_ff": 96, "num_heads": 2, "num_kv_heads": 1, "tied_embeddings": "all"}
    model = TransformerConfig(**keys, norm=DeepNormConfig(), encoder_layers=2, decoder_layers=1).build(9, 9)
    beta = deep_scales(Depth("encoder", 2, 1)).beta
    layer = model.encoder[0]
    assert isinstance(layer.attention_joint, DeepNorm)
    values, out = layer.attention.value_weights()
    assert values.shape == (32, 64)  # one key/value head of width 32
    assert values.data_ptr() == layer.attention.query_key_value.weight[-32:].data_ptr()
    for weight in (values, out, *layer.feed_forward.value_weights()):
        assert float(weight.detach().std()) == pytest.approx(beta * math.sqrt(2 / sum(weight.shape)), rel=0.1)
    bound = math.sqrt(6 / sum(layer.attention.query_key_value.weight.shape))
    assert layer.attention.query_key_value.weight[:-32].detach().abs().max() <= bound  # still the uniform ones
    cross = model.decoder[0].cross_attention
    assert cross.value_weights()[0].data_ptr() == cross.key_value.weight[32:].data_ptr()


def test_every_sublayer_of_a_layer_is_a_branch():
    model = TransformerConfig(d_model=8, num_heads=2, d_ff=8).build(5, 5)
    for layer in (*model.encoder, *model.decoder):
        parts = [part for name, part in layer.named_children() if not name.endswith("joint")]
        assert parts
        assert all(isinstance(part, Branch) for part in parts)
