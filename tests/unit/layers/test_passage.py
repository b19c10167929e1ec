"""Layers that are computed once more for their gradient give the same gradient, to the bit."""

import pytest
import torch

from mtkit.layers.feed_forward.mixture_of_experts import ExpertsConfig
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.rnn.attention_config import AttentionRNNConfig
from mtkit.models.rnn.seq2seq import LSTMConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.decoder_inputs.scheduled_sampling import ScheduledSampling, token_coins
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.seeding import seed_everything
from tests.unit.training.toy_training import VOCAB, toy_batch

SMALL = {"d_model": 8, "num_heads": 2, "d_ff": 12, "dropout": 0.3}
MODELS = {
    "transformer": TransformerConfig(encoder_layers=2, decoder_layers=2, layer_drop=0.3, **SMALL),
    "experts": TransformerConfig(
        encoder_layers=2, decoder_layers=2, feed_forward=ExpertsConfig(num_experts=2, jitter=0.1), **SMALL
    ),
    "decoder_only": DecoderOnlyConfig(decoder_layers=2, **SMALL),
    "lstm": LSTMConfig(d_model=8, d_embedding=4, dropout=0.3),
    "attention_rnn": AttentionRNNConfig(
        d_model=8, d_embedding=4, d_attention=4, encoder_layers=2, decoder_layers=2, dropout=0.3
    ),
}


def greedy(logits):
    return logits.argmax(-1)


DECODER_INPUTS = {"truth": TeacherForcing(), "sampling": ScheduledSampling(lambda update: 0.5, token_coins, greedy)}


def pass_through(kind, decoder_input, dtype, *, recompute):
    """Loss, figures and gradients of one micro-batch, and how often the first layer with weights was called."""
    torch.manual_seed(1)
    model = MODELS[kind].build(VOCAB, VOCAB)
    if recompute:
        model.recompute_layers()
    calls = []
    inner = [module for name, module in model.named_modules() if name.endswith(("attention", "cell.inputs"))]
    inner[0].register_forward_hook(lambda *_: calls.append(1))
    seed_everything(5)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        losses = model(toy_batch(3, 4), CrossEntropy(decoder_input, 0.1))
    torch.rand(3)  # what is drawn between the two passes changes nothing
    losses.sum.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"loss": losses.sum.detach(), **losses.extra, **gradients}, len(calls)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("decoder_input", DECODER_INPUTS)
@pytest.mark.parametrize("kind", MODELS)
def test_the_same_gradient_to_the_bit(kind, decoder_input, dtype):
    kept, calls = pass_through(kind, DECODER_INPUTS[decoder_input], dtype, recompute=False)
    recomputed, twice = pass_through(kind, DECODER_INPUTS[decoder_input], dtype, recompute=True)
    assert kept.keys() == recomputed.keys()
    assert [name for name in kept if not torch.equal(kept[name], recomputed[name])] == []
    assert twice == 2 * calls


def test_without_gradient_nothing_is_computed_twice():
    model = MODELS["transformer"].build(VOCAB, VOCAB).eval()
    model.recompute_layers()
    calls = []
    model.encoder[0].register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        model(toy_batch(3, 4), CrossEntropy(TeacherForcing(), 0.1))
    assert len(calls) == 1
