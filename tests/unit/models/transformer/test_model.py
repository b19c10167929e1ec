"""Transformer: `start` and `step` against whole sentences."""

import pytest
import torch

from mtkit.corpus.order.batch import Source, Target
from mtkit.errors import DataError
from mtkit.layers.cache import SharedPrefixCache
from mtkit.layers.config import LearnedConfig, NoPositionConfig, PostNormConfig, PreNormConfig, SinusoidalConfig
from mtkit.models.transformer.config import TransformerConfig
from tests.unit.models.transformer.toy_transformer import B, S, T, V, source, target

POSITIONS = [SinusoidalConfig(), LearnedConfig(max_length=16), NoPositionConfig()]


def small(**keys):
    keys = {"d_model": 12, "d_ff": 16, "num_heads": 3, "encoder_layers": 2, "decoder_layers": 3, "dropout": 0.0} | keys
    return TransformerConfig(**keys).build(V, V).double().eval()


@pytest.mark.parametrize("positions", POSITIONS, ids=lambda config: config.kind)
@pytest.mark.parametrize("norm", [PreNormConfig(), PostNormConfig()], ids=lambda config: config.kind)
def test_steps_equal_the_whole_sentence(positions, norm):
    model = small(encoder_positions=positions, decoder_positions=positions, residual=norm)
    hidden = model.decode_states(source(), target())
    state = model.start(source())
    for t in range(T):
        step = model.step(target().ids[:, t], state)
        logits, state, attention = step.logits(), step.state, step.attention
        assert torch.allclose(logits, model.output(hidden[:, t]))
        assert attention.shape == (B, 3, S)
        assert torch.allclose(attention.sum(-1), torch.ones(B, 3, dtype=torch.float64))


@pytest.mark.usefixtures("forgotten_memory_is_nan")
@pytest.mark.parametrize("chunk_tokens", [1, 2 * S, 1000])
def test_spare_capacity_of_caches_changes_nothing(chunk_tokens, monkeypatch):
    monkeypatch.setattr("mtkit.models.transformer.model.ENCODER_CHUNK_TOKENS", chunk_tokens)
    model, length = small(), 20
    ids = torch.randint(V, (B, length), generator=torch.Generator().manual_seed(3))
    pos = torch.arange(length).expand(B, -1)
    with torch.inference_mode():
        hidden, state = model.decode_states(source(), Target(ids, pos >= 0, pos)), model.start(source())
        for t in range(length):
            found, state, _ = model.step(ids[:, t], state)
            assert torch.allclose(found, hidden[:, t])
            if t == length // 4:
                state = state.select_rows(torch.arange(B))


def test_hypotheses_share_one_row_of_memory():
    model = small()
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


def test_padding_and_other_sentences_change_nothing():
    model = small()
    alone = Source(source().ids[1:2, :4], source().real[1:2, :4], source().pos[1:2, :4])
    left = Source(*(torch.cat([t.new_zeros(1, 3), t], dim=1) for t in (alone.ids, alone.real, alone.pos)))
    one = Target(target().ids[1:2], target().real[1:2], target().pos[1:2])
    truth = model.decode_states(source(), target())[1:2]
    assert torch.allclose(model.decode_states(alone, one), truth)
    assert torch.allclose(model.decode_states(left, one), truth)


def test_states_before_compaction_can_be_continued_in_several_ways():
    model = small()
    with torch.inference_mode():
        start = model.start(source())
        first = model.step(target().ids[:, 0], start).state
        expected = model.step(target().ids[:, 1], first).logits()
        model.step(target().ids[:, 2], first.select_rows(torch.arange(B).repeat_interleave(1)))
        again = model.step(target().ids[:, 0], start).state
        for state in (first, again):
            assert torch.equal(model.step(target().ids[:, 1], state).logits(), expected)


def test_decoding_shares_prefixes_and_training_does_not(monkeypatch):
    made = []
    original = SharedPrefixCache.__init__
    monkeypatch.setattr(SharedPrefixCache, "__init__", lambda self, *args: made.append(original(self, *args)))
    model = small()
    model.decode_states(source(), target())
    assert made == []
    model.start(source())
    assert len(made) == 3


@pytest.mark.parametrize(("tied", "tables"), [("all", 1), ("embeddings", 2), ("target", 2), ("none", 3)])
def test_tying_shares_the_tables(tied, tables):
    weights = {id(p) for p in small(tied_embeddings=tied).parameters() if V in p.shape}
    assert len(weights) == tables


def test_tying_all_needs_one_vocabulary():
    for tied in ("all", "embeddings"):
        with pytest.raises(ValueError, match=f"tied_embeddings: {tied} needs a shared vocabulary"):
            TransformerConfig(tied_embeddings=tied).build(10, 11)


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="num_heads: 5 does not divide d_model 256"):
        TransformerConfig(num_heads=5)
    with pytest.raises(ValueError, match="num_kv_heads"):
        TransformerConfig(num_kv_heads=3)


def test_sentences_beyond_the_learned_positions_are_refused():
    model = small(encoder_positions=LearnedConfig(max_length=6))
    with pytest.raises(DataError, match="7 tokens"):
        model.start(source())


def test_grad_flows_through_steps():
    """Scheduled sampling trains through start and step, so caches must keep the gradient."""
    model = small().train()
    state, total = model.start(source()), torch.zeros((), dtype=torch.float64)
    for t in range(T):
        hidden, state, _ = model.step(target().ids[:, t], state)
        total = total + hidden.pow(2).sum()
    stepwise = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
    whole = torch.autograd.grad(
        model.decode_states(source(), target()).pow(2).sum(), list(model.parameters()), allow_unused=True
    )
    for a, b in zip(stepwise, whole, strict=True):
        assert (a is None and b is None) or torch.allclose(a, b)
