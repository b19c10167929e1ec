"""What a model in parts is judged with."""

import torch

from mtkit.layers.attention.longformer import LongformerConfig
from mtkit.layers.attention.performer import PerformerConfig
from mtkit.layers.positions.rope import RoPEConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.distributed.fsdp import Shell
from mtkit.training.weights import load_weights, weights
from tests.unit.training.toy_training import VOCAB, toy_batch


def model():
    given = {"encoder_attention": LongformerConfig(sentence_ends=True), "decoder_attention": PerformerConfig()}
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1}
    return TransformerConfig(encoder_positions=RoPEConfig(), **given, **sizes).build(VOCAB, VOCAB).eval()


def test_it_is_the_model_that_goes_on_from_a_checkpoint():
    """Also in what no optimiser changes: random features, and which pieces end a sentence."""
    trained, resumed = model(), model()
    trained.sentence_ends.mark([5, 7])
    shell = Shell(resumed)
    load_weights(resumed, weights(trained))
    batch = toy_batch(1, 3)
    with shell.filled(resumed) as judged:
        assert torch.equal(judged.hidden(batch.source, batch.target), trained.hidden(batch.source, batch.target))
