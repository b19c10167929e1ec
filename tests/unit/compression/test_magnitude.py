"""Magnitude pruning against torch's own, and its sizes on disk."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.utils import prune

from mtkit.compression.pruning import prune_weights
from mtkit.errors import UsageError
from mtkit.layers.variants.config import PerformerConfig
from mtkit.model_folder.weights_file import StoredWeights, quantise_tensors
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.weights import weights
from tests.unit.compression.test_heads import build

CONFIG = TransformerConfig(d_model=8, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1)


@pytest.mark.parametrize("fraction", [0.1, 0.4, 0.9])
def test_equals_global_magnitude_pruning_of_torch(fraction: float) -> None:
    model = build(CONFIG).float()
    ours = prune_weights(weights(model), fraction, parameters=dict(model.named_parameters()))
    names = {name: each for name, each in weights(model).items() if each.dim() == 2}
    modules = dict(model.named_modules())
    places = [(modules[name.removesuffix(".weight")], "weight") for name in names]
    prune.global_unstructured(places, pruning_method=prune.L1Unstructured, amount=fraction)
    for name in names:
        assert torch.equal(ours[name], modules[name.removesuffix(".weight")].weight), name
    vectors = {name: each for name, each in weights(build(CONFIG).float()).items() if each.dim() != 2}
    assert all(each.equal(ours[name]) for name, each in vectors.items())


def test_random_features_stay() -> None:
    model = build(replace(CONFIG, encoder_attention=PerformerConfig(num_features=8)))
    tensors = weights(model)
    pruned = prune_weights(tensors, 0.9, parameters=dict(model.named_parameters()))
    name = "encoder.0.attention.kernel.projection_matrix"
    assert pruned[name].equal(tensors[name])
    assert pruned["encoder.0.feed_forward.inner.weight"].count_nonzero() < 8 * 16


def test_limits() -> None:
    tensors = {"w": torch.randn(4, 8)}
    assert prune_weights(tensors, 0.0, parameters=tensors)["w"].equal(tensors["w"])
    with pytest.raises(UsageError, match=r"--fraction 1: leaves no weight; lower it"):
        prune_weights(tensors, 1, parameters=tensors)


@pytest.mark.parametrize("fraction", [0.0, 0.4, 0.8])
def test_a_sparse_matrix_has_one_bit_per_weight_and_the_rest_in_full(fraction: float) -> None:
    tensors = {"w": torch.randn(64, 64), "odd": torch.randn(64, 33), "b": torch.randn(5)}
    weight = prune_weights(tensors, fraction, parameters=tensors)
    stored = quantise_tensors(weight, "sparse")
    assert stored["w"].numel() == int(weight["w"].count_nonzero())
    assert stored["w.mask"].numel() * 8 == 64 * 64
    found = StoredWeights({name: each.numpy() for name, each in stored.items()})
    assert found.keys() == weight.keys()
    assert all(torch.from_numpy(each).equal(weight[name]) for name, each in found.items())
