"""Decoder-only model."""

import pytest
import torch

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.config import LearnedConfig, NoPositionConfig, RoPEConfig, SinusoidalConfig
from mtkit.layers.variants.config import (
    ALiBiConfig,
    DeBERTaConfig,
    MixtureOfExpertsConfig,
    ShawConfig,
    T5BiasConfig,
    TransformerXLConfig,
)
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.transformer.config import AllSharedConfig
from tests.unit.models.transformer.toy_transformer import B, S, T, V, source, target

POSITIONS = [
    SinusoidalConfig(),
    LearnedConfig(max_length=16),
    NoPositionConfig(),
    RoPEConfig(),
    ALiBiConfig(),
    ShawConfig(),
    T5BiasConfig(),
    TransformerXLConfig(),
    DeBERTaConfig(),
]
VARIANTS = [
    {"source_visibility": "causal"},
    {"parallel_sublayers": True},
    {"feed_forward": MixtureOfExpertsConfig(num_experts=2)},
    {"decoder_sharing": AllSharedConfig()},
    {"layerdrop": 0.5},
    {"num_kv_heads": 1, "qk_norm": "rms"},
]


def small(**keys):
    torch.manual_seed(4)
    shape = {"d_model": 12, "d_ff": 16, "num_heads": 3, "decoder_layers": 3, "dropout": 0.0}
    return DecoderOnlyConfig(**(shape | keys)).build(V, V).double().eval()


def check_steps(model):
    hidden, state = model.decode_states(source(), target()), model.start(source())
    for t in range(T):
        step = model.step(target().ids[:, t], state)
        logits, state, attention = step.logits(), step.state, step.attention
        assert torch.allclose(logits, model.output(hidden[:, t]))
        assert attention.shape == (B, 3, S)
        assert (attention.sum(-1) < 1).all() or t == 0


@pytest.mark.parametrize("positions", POSITIONS, ids=lambda config: config.kind)
def test_steps_equal_the_whole_sentence_with_all_positions(positions):
    check_steps(small(decoder_positions=positions))


@pytest.mark.parametrize("keys", VARIANTS, ids=lambda keys: next(iter(keys)))
def test_steps_equal_the_whole_sentence(keys):
    check_steps(small(**keys))


@pytest.mark.parametrize("keys", VARIANTS, ids=lambda keys: next(iter(keys)))
def test_padding_and_other_sentences_change_nothing(keys):
    model = small(**keys)
    truth = model.decode_states(source(), target())[1:2]
    alone = Source(source().ids[1:2, :4], source().real[1:2, :4], source().pos[1:2, :4])
    left = Source(*(torch.cat([t.new_zeros(1, 3), t], dim=1) for t in (alone.ids, alone.real, alone.pos)))
    one = Target(target().ids[1:2], target().real[1:2], target().pos[1:2])
    shifted = Target(*(torch.cat([t.new_zeros(1, 2), t], dim=1) for t in (one.ids, one.real, one.pos)))
    assert torch.allclose(model.decode_states(alone, one), truth)
    assert torch.allclose(model.decode_states(left, one), truth)
    assert torch.allclose(model.decode_states(alone, shifted)[:, 2:], truth)


@pytest.mark.parametrize("positions", POSITIONS, ids=lambda config: config.kind)
def test_hypotheses_share_one_row_of_the_source(positions):
    model = small(decoder_positions=positions)
    hidden = model.decode_states(source(), target())
    _, state, _ = model.step(target().ids[:, 0], model.start(source()))
    state = state.select_rows(torch.arange(B).repeat_interleave(4))
    assert state.memory.layers[0].k.size(0) == B
    other = (target().ids[:, 1] + 1) % V
    step = model.step(torch.stack([target().ids[:, 1], other, other, other], 1).flatten(), state)
    logits, state, attention = step.logits(), step.state, step.attention
    assert attention.shape == (4 * B, 3, S)
    assert torch.allclose(logits[::4], model.output(hidden[:, 1]))
    assert not torch.allclose(logits[1::4], model.output(hidden[:, 1]))
    state = state.keep_sentences(torch.tensor([2, 0]))
    logits = model.step(target().ids[[2, 0], 2].repeat_interleave(4), state).logits()
    assert torch.allclose(logits[::4], model.output(hidden[[2, 0], 2]))


def test_following_tokens_do_not_change_a_causal_source():
    model, other = small(source_visibility="causal"), source()
    other.ids[:, -1] = (other.ids[:, -1] + 1) % V
    states, _ = model.forward_both(source(), target())
    assert torch.allclose(states[:, :-1], model.forward_both(other, target())[0][:, :-1])
    states, _ = small().forward_both(source(), target())
    assert not torch.allclose(states[:, :-1], small().forward_both(other, target())[0][:, :-1])


def test_gradients_equal_finite_differences():
    model = small(decoder_layers=1, d_model=6)
    weight = model.layers[0].attention.query_key_value.weight
    src, tgt = source(ends=(2,)), Target(target().ids[:1, :2], target().real[:1, :2], target().pos[:1, :2])
    src = Source(src.ids[:, :3], src.real[:, :3], src.pos[:, :3])

    def states(change):
        return torch.func.functional_call(
            model, {"layers.0.attention.query_key_value.weight": weight + change}, (src, tgt), {}
        )

    model.forward = model.decode_states
    change = torch.zeros_like(weight, requires_grad=True)
    assert torch.autograd.gradcheck(states, change)


def test_grad_flows_through_steps():
    model = small().train()
    state, total = model.start(source()), torch.zeros((), dtype=torch.float64)
    for t in range(T):
        hidden, state, _ = model.step(target().ids[:, t], state)
        total = total + hidden.pow(2).sum()
    stepwise = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
    whole = model.decode_states(source(), target()).pow(2).sum()
    for a, b in zip(stepwise, torch.autograd.grad(whole, list(model.parameters()), allow_unused=True), strict=True):
        assert (a is None and b is None) or torch.allclose(a, b)


@pytest.mark.parametrize("positions", POSITIONS, ids=lambda config: config.kind)
def test_bf16_weights_are_near_float32(positions):
    model = small(decoder_positions=positions).float()
    truth = model.decode_states(source(), target())
    found = model.bfloat16().decode_states(source(), target())
    assert found.dtype == torch.bfloat16
    error = (found.float() - truth).norm(dim=-1) / truth.norm(dim=-1)
    assert float(error.detach().median()) < 0.05


def test_a_batch_without_sentences_passes():
    none = torch.zeros(0, dtype=torch.int64)
    src, tgt = source().select(none), Target(*(t[:0] for t in (target().ids, target().real, target().pos)))
    assert small().decode_states(src, tgt).shape == (0, T, 12)


def test_tying_all_needs_one_vocabulary():
    with pytest.raises(ValueError, match="tied_embeddings: all needs a shared vocabulary"):
        DecoderOnlyConfig().build(10, 11)
