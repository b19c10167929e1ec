"""Unsharded replica of a sharded model, for validation."""

import torch

from mtkit.layers.config import RoPEConfig
from mtkit.layers.variants.config import LongformerConfig, PerformerConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.distributed import UnshardedReplica
from mtkit.training.weights import load_weights, weights
from tests.toy.training import VOCAB, toy_batch


def model():
    attention = {"encoder_attention": LongformerConfig(), "decoder_attention": PerformerConfig()}
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1}
    return TransformerConfig(encoder_positions=RoPEConfig(), **attention, **sizes).build(VOCAB, VOCAB).eval()


def test_the_replica_has_the_weights_and_buffers_of_a_resumed_model():
    """The random features of Performer attention are buffers, which no optimiser changes."""
    trained, resumed = model(), model()
    replica = UnshardedReplica(resumed)
    load_weights(resumed, weights(trained))
    batch = toy_batch(1, 3)
    expected = trained.decode_states(batch.source, batch.target)
    with replica.loaded_from(resumed) as loaded:
        assert torch.equal(loaded.decode_states(batch.source, batch.target), expected)
    assert all(parameter.numel() == 0 for parameter in loaded.parameters())
