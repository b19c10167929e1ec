"""Activation checkpointing: the gradient is the same to the bit."""

import pytest
import torch

from mtkit.layers.variants.config import MixtureOfExpertsConfig
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.decoder_inputs.config import LinearDecayConfig, ScheduledSamplingConfig
from mtkit.training.decoder_inputs.scheduled_sampling import ScheduledSampling
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.numerics import seed_everything
from mtkit.training.objectives.cross_entropy import CrossEntropy
from tests.toy.training import VOCAB, VOCAB_IDS, toy_batch

SMALL = {"d_model": 8, "num_heads": 2, "d_ff": 12, "dropout": 0.3}
MODELS = {
    "transformer": TransformerConfig(encoder_layers=2, decoder_layers=2, layerdrop=0.3, **SMALL),
    "moe": TransformerConfig(
        encoder_layers=2, decoder_layers=2, feed_forward=MixtureOfExpertsConfig(num_experts=2, jitter=0.1), **SMALL
    ),
    "decoder_only": DecoderOnlyConfig(decoder_layers=2, **SMALL),
    "rnn": Seq2SeqRNNConfig(d_model=8, d_embed=4, dropout=0.3),
    "attention_rnn": AttentionRNNConfig(
        d_model=8, d_embed=4, d_attention=4, encoder_layers=2, decoder_layers=2, dropout=0.3
    ),
}


HALF = LinearDecayConfig(updates=1, end=0.5)
SAMPLING = ScheduledSampling(ScheduledSamplingConfig(teacher_forcing_ratio=HALF, sampler="argmax"), VOCAB_IDS)
SAMPLING.set_update(2)
DECODER_INPUTS = {"truth": TeacherForcing(), "sampling": SAMPLING}


def run(kind, decoder_input, dtype, *, checkpointing):
    """Loss, metrics and gradients of one micro-batch, and the number of calls of one of the layers."""
    torch.manual_seed(1)
    model = MODELS[kind].build(VOCAB, VOCAB)
    if checkpointing:
        model.checkpoint_layers()
    calls = []
    inner = [module for name, module in model.named_modules() if name.endswith(("attention", "cell.input_proj"))]
    inner[0].register_forward_hook(lambda *_: calls.append(1))
    seed_everything(5)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        losses = model(toy_batch(3, 4), CrossEntropy(decoder_input, 0.1))
    torch.rand(3)  # random numbers between forward and backward pass must not matter
    losses.sum.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"loss": losses.sum.detach(), **losses.extra, **gradients}, len(calls)


@pytest.mark.whole
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("decoder_input", DECODER_INPUTS)
@pytest.mark.parametrize("kind", MODELS)
def test_checkpointing_gives_the_same_gradient_to_the_bit(kind, decoder_input, dtype):
    stored, calls = run(kind, DECODER_INPUTS[decoder_input], dtype, checkpointing=False)
    recomputed, calls_with_recomputation = run(kind, DECODER_INPUTS[decoder_input], dtype, checkpointing=True)
    assert stored.keys() == recomputed.keys()
    assert [name for name in stored if not torch.equal(stored[name], recomputed[name])] == []
    assert calls_with_recomputation == 2 * calls


def test_no_recomputation_without_gradient():
    model = MODELS["transformer"].build(VOCAB, VOCAB).eval()
    model.checkpoint_layers()
    calls = []
    model.encoder[0].register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        model(toy_batch(3, 4), CrossEntropy(TeacherForcing(), 0.1))
    assert len(calls) == 1
