"""Structured pruning: a smaller model computes as the whole one whose removed units give nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mtkit.compression.pruning import drop_layers, prune_feed_forward
from mtkit.errors import UsageError
from mtkit.layers.config import GatedConfig
from mtkit.layers.variants.config import AverageAttentionConfig, MixtureOfExpertsConfig
from mtkit.models.transformer.config import AllSharedConfig, TransformerConfig
from mtkit.training.weights import load_weights, weights
from tests.unit.compression.test_heads import VOCAB, batch, build

CONFIG = TransformerConfig(d_model=8, d_ff=6, num_heads=2, encoder_layers=3, decoder_layers=2)


def states(model):
    data = batch(4, 6)
    with torch.no_grad():
        return model.decode_states(data.source, data.target)[data.loss_mask]


def test_units_without_effect_go_first() -> None:
    model = build(CONFIG)
    silent = [0, 2, 5]
    with torch.no_grad():
        for layer in [*model.encoder, *model.decoder]:
            layer.feed_forward.outer.weight[:, silent] = 0
    config, tensors = prune_feed_forward(CONFIG, weights(model), 0.5)
    assert config == replace(CONFIG, d_ff=3)
    pruned = config.build(VOCAB.size, VOCAB.size).eval()
    load_weights(pruned, tensors)
    torch.testing.assert_close(states(pruned), states(model))


def test_the_feed_forward_layer_of_average_attention_keeps_its_width() -> None:
    whole = replace(CONFIG, decoder_attention=AverageAttentionConfig(d_ff=10))
    model = build(whole)
    config, tensors = prune_feed_forward(whole, weights(model), 0.5)
    load_weights(config.build(VOCAB.size, VOCAB.size), tensors)
    name = "decoder.0.attention.feed_forward.inner.weight"
    assert tensors[name].equal(weights(model)[name])


def test_every_other_layer_is_kept() -> None:
    model = build(CONFIG)
    config, tensors = drop_layers(CONFIG, weights(model))
    assert config == replace(CONFIG, encoder_layers=2, decoder_layers=1)
    half = config.build(VOCAB.size, VOCAB.size).eval()
    load_weights(half, tensors)
    model.encoder.order, model.decoder.order = (0, 2), (0,)
    torch.testing.assert_close(states(half), states(model))


@pytest.mark.parametrize(
    ("encoder", "decoder", "kept"), [(1, None, ((0,), (0,))), (3, 1, ((0, 1, 2), (0,))), (2, 2, ((0, 2), (0, 1)))]
)
def test_as_many_layers_are_kept_as_wanted(
    encoder: int, decoder: int | None, kept: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    model = build(CONFIG)
    config, tensors = drop_layers(CONFIG, weights(model), encoder_layers=encoder, decoder_layers=decoder)
    assert (config.encoder_layers, config.decoder_layers) == tuple(map(len, kept))
    small = config.build(VOCAB.size, VOCAB.size).eval()
    load_weights(small, tensors)
    model.encoder.order, model.decoder.order = kept
    torch.testing.assert_close(states(small), states(model))


def test_heads_follow_their_layers() -> None:
    pruned = replace(CONFIG, encoder_heads=[2, 1, 2], decoder_heads=[1, 2], cross_heads=[2, 1])
    config, _ = drop_layers(pruned, {})
    assert (config.encoder_heads, config.decoder_heads, config.cross_heads) == ([2, 2], [1], [2])


def test_of_layers_that_are_all_mixtures_of_experts_every_other_is_kept() -> None:
    mixtures = replace(CONFIG, feed_forward=MixtureOfExpertsConfig(num_experts=2, moe_every=1))
    model = build(mixtures)
    config, tensors = drop_layers(mixtures, weights(model))
    half = config.build(VOCAB.size, VOCAB.size).eval()
    load_weights(half, tensors)
    model.encoder.order, model.decoder.order = (0, 2), (0,)
    torch.testing.assert_close(states(half), states(model))


def test_refused() -> None:
    with pytest.raises(UsageError, match="leaves none of the 6 units"):
        prune_feed_forward(CONFIG, {}, 1.0)
    with pytest.raises(UsageError, match="only dense is pruned"):
        prune_feed_forward(replace(CONFIG, feed_forward=GatedConfig()), {}, 0.5)
    with pytest.raises(UsageError, match="share weights"):
        drop_layers(replace(CONFIG, encoder_sharing=AllSharedConfig()), {})
    with pytest.raises(UsageError, match=r"moe_every is 2, .* only moe_every 1 is pruned"):
        drop_layers(replace(CONFIG, feed_forward=MixtureOfExpertsConfig()), {})
    with pytest.raises(UsageError, match="all layers would be kept, 1 of the encoder and 1 of the decoder"):
        drop_layers(replace(CONFIG, encoder_layers=1, decoder_layers=1), {})
    with pytest.raises(UsageError, match="all layers would be kept"):
        drop_layers(CONFIG, {}, encoder_layers=3, decoder_layers=2)
    with pytest.raises(UsageError, match=r"--decoder-layers 3: the model has 2; keep 1 to 2"):
        drop_layers(CONFIG, {}, decoder_layers=3)
    with pytest.raises(UsageError, match="--encoder-layers 0: the model has 3"):
        drop_layers(CONFIG, {}, encoder_layers=0)
