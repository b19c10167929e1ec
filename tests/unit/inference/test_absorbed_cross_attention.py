"""Absorbed cross-attention: the same results as attention to projected keys and values."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from mtkit.inference import absorbed_cross_attention
from mtkit.inference.absorbed_cross_attention import AbsorbedCrossAttention, absorb_cross_attention
from mtkit.layers.feed_forward.config import GatedConfig
from mtkit.layers.norms.config import PostNormConfig
from mtkit.layers.positions.relative_config import RoPEConfig
from mtkit.models.interface import TranslationModel
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.sharing import AllSharedConfig, CycleConfig
from tests.unit.models.transformer.toy_transformer import V, source, target

SIZES = {"d_model": 12, "num_heads": 3, "d_ff": 20, "encoder_layers": 2, "decoder_layers": 3, "dropout": 0.0}
KINDS = {
    "pre-norm": {},
    "post-norm": {"residual": PostNormConfig()},
    "rope": {"encoder_positions": RoPEConfig(), "decoder_positions": RoPEConfig()},
    "multi-query": {"num_kv_heads": 1},
    "parallel": {"parallel_sublayers": True, "feed_forward": GatedConfig()},
    "one layer for all": {"decoder_sharing": AllSharedConfig()},
    "two layers in turn": {"decoder_sharing": CycleConfig(distinct=2)},
}


def both(**keys) -> tuple[TranslationModel, TranslationModel]:
    torch.manual_seed(5)
    model = TransformerConfig(**{**SIZES, **keys}).build(V, V).double().eval()
    for parameter in model.parameters():  # biases too, which are initialised to zero
        nn.init.normal_(parameter, std=0.5)
    absorbed = copy.deepcopy(model)
    absorb_cross_attention(absorbed)
    return model, absorbed


@pytest.mark.parametrize("keys", KINDS.values(), ids=KINDS.keys())
def test_decoder_states_are_equal(keys):
    model, absorbed = both(**keys)
    assert all(isinstance(layer.cross_attention, AbsorbedCrossAttention) for layer in absorbed.decoder)
    torch.testing.assert_close(absorbed.decode_states(source(), target()), model.decode_states(source(), target()))


@pytest.mark.parametrize("keys", KINDS.values(), ids=KINDS.keys())
@pytest.mark.parametrize("hypotheses", [1, 3])
def test_steps_are_equal_while_sentences_finish(keys, hypotheses):
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


def test_all_layers_share_one_memory():
    model, absorbed = both()
    assert len(model.start(source()).memory.layers) == 3
    (memory,) = absorbed.start(source()).memory.layers
    assert memory.keys is memory.vals
    (kept,) = absorbed.start(source()).keep_sentences(torch.tensor([1])).memory.layers
    assert kept.keys is kept.vals


def test_normalised_keys_are_not_absorbed():
    model, absorbed = both(qk_norm="rms")
    assert [name for name, _ in absorbed.named_parameters()] == [name for name, _ in model.named_parameters()]
    torch.testing.assert_close(absorbed.decode_states(source(), target()), model.decode_states(source(), target()))


def test_models_without_cross_attention_do_not_change():
    model = Seq2SeqRNNConfig(d_model=8, d_embed=8).build(V, V)
    before = copy.deepcopy(model.state_dict())
    absorb_cross_attention(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_limit_depends_on_heads_and_width(monkeypatch):
    monkeypatch.setattr(absorbed_cross_attention, "MAX_MULTIPLICATIONS", 3 * 12)
    assert isinstance(both()[1].decoder[0].cross_attention, AbsorbedCrossAttention)
    monkeypatch.setattr(absorbed_cross_attention, "MAX_MULTIPLICATIONS", 3 * 12 - 1)
    assert not isinstance(both()[1].decoder[0].cross_attention, AbsorbedCrossAttention)
