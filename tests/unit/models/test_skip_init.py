import pytest
import torch
from torch import nn

from mtkit.models.rnn.config import AttentionRNNConfig
from mtkit.models.skip_init import META_DEVICE, SkipInit, build_on_meta
from mtkit.models.transformer.config import TransformerConfig

CONFIGS = [
    TransformerConfig(d_model=8, d_ff=12, num_heads=2, encoder_layers=1, decoder_layers=1),
    AttentionRNNConfig(d_model=6, d_embed=4, d_attention=5),
]
every_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)


@every_config
def test_random_init_is_skipped_and_constants_are_computed(config, forgotten_memory_is_nan):
    before = torch.get_rng_state()
    with SkipInit(torch.device("cpu")):
        model = config.build(20, 20)
    assert torch.equal(torch.get_rng_state(), before)
    initialised = config.build(20, 20)
    constants = dict(initialised.named_buffers())
    assert all(torch.equal(buffer, constants[name]) for name, buffer in model.named_buffers())
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    assert shapes == {name: parameter.shape for name, parameter in initialised.named_parameters()}
    assert all(p.isfinite().all() for p in model.parameters())


@every_config
def test_weights_on_the_meta_device_have_shapes_only(config):
    model = build_on_meta(lambda: config.build(20, 20))
    assert {p.device for p in model.parameters()} == {META_DEVICE}


def test_constants_become_weights_on_the_meta_device_and_stay_tied():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = self.second = nn.Parameter(torch.ones(3))

    model = build_on_meta(Scaled)
    assert model.first is model.second
    assert model.first.device == META_DEVICE
