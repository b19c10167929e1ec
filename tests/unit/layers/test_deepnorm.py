"""DeepNorm's scales and initialisation."""

import math

import pytest

from mtkit.layers.config import DeepNormConfig
from mtkit.layers.norms import DeepNorm, Depth, deepnorm_scales
from mtkit.models.transformer.config import TransformerConfig


@pytest.mark.parametrize(
    ("depth", "alpha", "beta"),
    [  # the paper's recommended settings, calculated by hand for N = 18, M = 6
        (Depth("encoder", 18, 6), 0.81 * 18**0.25 * 6**0.0625, 0.87 / 18**0.25 / 6**0.0625),
        (Depth("decoder", 18, 6), 18**0.25, 72**-0.25),
        (Depth("decoder_only", 0, 8), 2.0, 64**-0.25),
    ],
)
def test_scales_are_the_papers(depth, alpha, beta):
    assert deepnorm_scales(depth) == pytest.approx((alpha, beta))


def test_initialisation_scales_the_value_path_only():
    keys = {"d_model": 64, "d_ff": 96, "num_heads": 2, "num_kv_heads": 1, "tied_embeddings": "all"}
    model = TransformerConfig(**keys, residual=DeepNormConfig(), encoder_layers=2, decoder_layers=1).build(9, 9)
    beta = deepnorm_scales(Depth("encoder", 2, 1)).beta
    layer = model.encoder[0]
    assert any(isinstance(child, DeepNorm) for child in layer.children())
    values, out = layer.attention.value_path_weights()
    assert values.shape == (32, 64)  # one key/value head of width 32
    assert values.data_ptr() == layer.attention.query_key_value.weight[-32:].data_ptr()
    for weight in (values, out, *layer.feed_forward.value_path_weights()):
        assert float(weight.detach().std()) == pytest.approx(beta * math.sqrt(2 / sum(weight.shape)), rel=0.1)
    bound = math.sqrt(6 / sum(layer.attention.query_key_value.weight.shape))
    assert layer.attention.query_key_value.weight[:-32].detach().abs().max() <= bound  # still Xavier-uniform
    cross = model.decoder[0].cross_attention
    assert cross.value_path_weights()[0].data_ptr() == cross.key_value.weight[32:].data_ptr()
