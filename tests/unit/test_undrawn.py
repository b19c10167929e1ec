import pytest
import torch

from mtkit.build.skip_init import META, Undrawn
from mtkit.models.rnn.attention_config import AttentionRNNConfig
from mtkit.models.transformer.config import TransformerConfig

CONFIGS = [
    TransformerConfig(d_model=8, d_ff=12, num_heads=2, encoder_layers=1, decoder_layers=1),
    AttentionRNNConfig(d_model=6, d_embedding=4, d_attention=5),
]
every_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)


@every_config
def test_nothing_is_drawn_and_what_is_computed_is_as_ever(config, forgotten_memory_is_nan):
    before = torch.get_rng_state()
    with Undrawn(torch.device("cpu")):
        model = config.build(20, 20)
    assert torch.equal(torch.get_rng_state(), before)
    drawn = config.build(20, 20)
    constants = dict(drawn.named_buffers())
    assert all(torch.equal(buffer, constants[name]) for name, buffer in model.named_buffers())
    assert {name: p.shape for name, p in model.named_parameters()} == {n: p.shape for n, p in drawn.named_parameters()}
    assert all(p.isfinite().all() for p in model.parameters())


@every_config
def test_weights_on_the_meta_device_have_shapes_alone(config):
    with Undrawn(META):
        model = config.build(20, 20)
    assert {p.device for p in model.parameters()} == {META}
