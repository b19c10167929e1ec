"""Absorbing biases changes the weights and nothing that is computed."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from mtkit.layers.feed_forward.gated import GatedConfig
from mtkit.layers.norms.layer_norm import LayerNormConfig
from mtkit.layers.norms.residual import PostNormConfig, PreNormConfig
from mtkit.layers.norms.rms_norm import RMSNormConfig
from mtkit.layers.positions.rope import RoPEConfig
from mtkit.layers.positions.shaw import ShawConfig
from mtkit.models.absorbed_biases import absorb_biases
from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.sharing import AllSharedConfig
from tests.unit.models.test_layouts import V, source, target

SIZES = {"d_model": 12, "num_heads": 3, "d_ff": 20, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
PRE = PreNormConfig(norm_layer=LayerNormConfig())


def model_of(**keys) -> TranslationModel:
    torch.manual_seed(5)
    model = TransformerConfig(**{**SIZES, **keys}).build(V, V).double().eval()
    for parameter in model.parameters():  # gains and biases too are not what they begin as
        nn.init.normal_(parameter, std=0.5)
    return model


def biases(model: TranslationModel) -> int:
    return sum(isinstance(module, nn.Linear) and module.bias is not None for module in model.modules())


@pytest.mark.parametrize(
    ("keys", "fewer"),
    [
        ({"norm": PRE}, 4 + 6),
        ({"norm": PRE, "encoder_positions": RoPEConfig(), "decoder_positions": ShawConfig()}, 4 + 6),
        ({"norm": PRE, "feed_forward": GatedConfig()}, 2 + 4),
        ({"norm": PRE, "decoder_sharing": AllSharedConfig()}, 4 + 3),
        ({"norm": PreNormConfig(norm_layer=RMSNormConfig())}, 0),
        ({"norm": PostNormConfig()}, 0),
    ],
)
def test_the_same_is_computed(keys, fewer):
    model = model_of(**keys)
    absorbed = copy.deepcopy(model)
    absorb_biases(absorbed)
    torch.testing.assert_close(absorbed.hidden(source(), target()), model.hidden(source(), target()))
    assert biases(model) - biases(absorbed) == fewer
