"""Attention to the encoder's states computes what attention to their projections does."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from mtkit.layers.feed_forward.gated import GatedConfig
from mtkit.layers.norms.residual import PostNormConfig
from mtkit.layers.positions.rope import RoPEConfig
from mtkit.models import absorbed_memory
from mtkit.models.absorbed_memory import AbsorbedCrossAttention, absorb_memory
from mtkit.models.interface import TranslationModel
from mtkit.models.rnn.seq2seq import LSTMConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.sharing import AllSharedConfig, CycleConfig
from tests.unit.models.test_layouts import V, source, target

SIZES = {"d_model": 12, "num_heads": 3, "d_ff": 20, "encoder_layers": 2, "decoder_layers": 3, "dropout": 0.0}
KINDS = {
    "pre-norm": {},
    "post-norm": {"norm": PostNormConfig()},
    "rope": {"encoder_positions": RoPEConfig(), "decoder_positions": RoPEConfig()},
    "multi-query": {"num_kv_heads": 1},
    "parallel": {"sublayers": "parallel", "feed_forward": GatedConfig()},
    "one layer for all": {"decoder_sharing": AllSharedConfig()},
    "two layers in turn": {"decoder_sharing": CycleConfig(distinct=2)},
}


def both(**keys) -> tuple[TranslationModel, TranslationModel]:
    torch.manual_seed(5)
    model = TransformerConfig(**{**SIZES, **keys}).build(V, V).double().eval()
    for parameter in model.parameters():  # biases too are not what they begin as
        nn.init.normal_(parameter, std=0.5)
    absorbed = copy.deepcopy(model)
    absorb_memory(absorbed)
    return model, absorbed


@pytest.mark.parametrize("keys", KINDS.values(), ids=KINDS.keys())
def test_the_same_is_computed(keys):
    model, absorbed = both(**keys)
    assert all(isinstance(layer.cross_attention, AbsorbedCrossAttention) for layer in absorbed.decoder)
    torch.testing.assert_close(absorbed.hidden(source(), target()), model.hidden(source(), target()))


@pytest.mark.parametrize("keys", KINDS.values(), ids=KINDS.keys())
@pytest.mark.parametrize("hypotheses", [1, 3])
def test_the_same_is_decoded_while_sentences_leave(keys, hypotheses):
    rows = torch.arange(3).repeat_interleave(hypotheses)
    with torch.inference_mode():
        steppers = [(model, model.start(source()).select_rows(rows)) for model in both(**keys)]
        for t in range(5):
            found = [model.step(target().ids[:, t][-state.num_sentences :].repeat_interleave(hypotheses), state)
                     for model, state in steppers]  # fmt: skip
            torch.testing.assert_close(found[1].logits(), found[0].logits())
            torch.testing.assert_close(found[1].attention, found[0].attention)
            steppers = [(model, step.state) for (model, _), step in zip(steppers, found, strict=True)]
            if t == 2:
                steppers = [(model, state.keep_sentences(torch.tensor([2, 1]))) for model, state in steppers]


def test_all_layers_have_one_memory():
    model, absorbed = both()
    assert len(model.start(source()).memory.layers) == 3
    (memory,) = absorbed.start(source()).memory.layers
    assert memory.keys is memory.vals
    (kept,) = absorbed.start(source()).keep_sentences(torch.tensor([1])).memory.layers
    assert kept.keys is kept.vals


def test_values_go_through_the_same_weights():
    model, absorbed = both()
    for one, other in zip(model.decoder, absorbed.decoder, strict=True):
        for expected, found in zip(*(x.cross_attention.value_weights() for x in (one, other)), strict=True):
            assert torch.equal(found, expected)


def test_normalised_keys_need_their_projection():
    model, absorbed = both(query_key_norm="rms")
    assert [name for name, _ in absorbed.named_parameters()] == [name for name, _ in model.named_parameters()]
    torch.testing.assert_close(absorbed.hidden(source(), target()), model.hidden(source(), target()))


def test_models_without_attention_to_states_are_left_as_they_are():
    model = LSTMConfig(d_model=8, d_embedding=8).build(V, V)
    before = copy.deepcopy(model.state_dict())
    absorb_memory(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_limit_is_by_heads_and_width(monkeypatch):
    monkeypatch.setattr(absorbed_memory, "MOST", 3 * 12)
    assert isinstance(both()[1].decoder[0].cross_attention, AbsorbedCrossAttention)
    monkeypatch.setattr(absorbed_memory, "MOST", 3 * 12 - 1)
    assert not isinstance(both()[1].decoder[0].cross_attention, AbsorbedCrossAttention)
